// OpenCL's error codes in words.
#pragma once

#include <string>

#include "api.h"

namespace tvmake {
namespace opencl {

/// `CL_INVALID_WORK_GROUP_SIZE (-54)`; a code without a name is printed as a number.
std::string ErrorName(cl_int code);

/// Throws RuntimeError `OpenCL: <what>: <name of the code>`.
[[noreturn]] void Fail(cl_int code, const std::string& what);

/// Throws unless the call succeeded. `what` says what was being done, for the one who reads the message.
inline void Check(cl_int code, const char* what) {
  if (code != CL_SUCCESS) Fail(code, what);
}

/// Whether the code says that memory ran out, on the device or in the driver.
bool IsOutOfMemory(cl_int code);

/// `96.0 MiB`, for messages.
std::string Bytes(size_t bytes);

}  // namespace opencl
}  // namespace tvmake
