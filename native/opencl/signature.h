// A kernel's parameters as its source declares them.
#pragma once

#include <string>
#include <vector>

namespace tvmake {
namespace opencl {

/// For each parameter of the kernel `name`, whether it is an image. Some drivers (PoCL) do not compare arguments with
/// parameters, and crash on a buffer where an image should be. Empty when the source does not show it plainly.
std::vector<bool> ImageParameters(const std::string& source, const std::string& name);

}  // namespace opencl
}  // namespace tvmake
