// Numbers as kernels take them.
#pragma once

#include <dlpack/dlpack.h>
#include <tvm/ffi/any.h>

#include <cstddef>
#include <cstdint>

namespace tvmake {
namespace opencl {

struct Scalar {
  unsigned char data[8];
  size_t bytes;
};

/// TVM's host code passes every integer as int64 and every float as double; this narrows one to the kernel's type.
/// Throws TypeError for types that kernels do not take.
Scalar ToScalar(tvm::ffi::AnyView value, DLDataType type);

}  // namespace opencl
}  // namespace tvmake
