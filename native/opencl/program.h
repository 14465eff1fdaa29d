// A kernel of OpenCL C, compiled for one device.
#pragma once

#include <string>

#include "device.h"

namespace tvmake {
namespace opencl {

/// A kernel, which the caller releases, and the key to keep its program by; empty when it came from the cache.
struct BuiltKernel {
  cl_kernel kernel = nullptr;
  std::string unstored_key;
};

/// The kernel `name` of `source` for a device: from the cache of programs, or compiled now. TVMAKE_OPENCL_OPTIONS is
/// given to the driver's compiler. Throws RuntimeError with the compiler's words when the source does not compile.
BuiltKernel BuildKernel(Device* device, const std::string& name, const std::string& source);

/// Put the kernel's program into the cache. To be called once the kernel has run: some drivers (PoCL) compile for the
/// size of its groups only then.
void StoreKernel(const BuiltKernel& built);

}  // namespace opencl
}  // namespace tvmake
