// Compiled programs on disk.
#pragma once

#include <optional>
#include <string>

#include "device.h"

namespace tvmake {
namespace opencl {

/// The name under which a program is kept: a digest of its source, the compiler's options, and the device with its
/// platform and driver versions, so that another driver never meets this one's code.
std::string ProgramKey(const DeviceFacts& facts, const std::string& source, const std::string& options);

/// The driver's code for a program, or nothing when it is not there, is damaged, or caching is off.
std::optional<std::string> LoadProgram(const std::string& key);

/// Keep a program. A cache that cannot be written is not an error: the next process compiles again.
///
/// Programs are in $TVMAKE_HOME/opencl, or tvmake/opencl in the user's cache directory, a file each. Files appear
/// complete or not at all, and carry a digest of their content. TVMAKE_OPENCL_CACHE=0 turns the cache off.
void StoreProgram(const std::string& key, const std::string& binary);

}  // namespace opencl
}  // namespace tvmake
