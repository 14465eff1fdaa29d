#include "scalar.h"

#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>

#include <cstring>

#include "half.h"

namespace tvmake {
namespace opencl {
namespace {

template <typename T>
Scalar Pack(T value) {
  Scalar scalar{};
  std::memcpy(scalar.data, &value, sizeof(T));
  scalar.bytes = sizeof(T);
  return scalar;
}

}  // namespace

Scalar ToScalar(tvm::ffi::AnyView value, DLDataType type) {
  if (type.lanes == 1 && type.code == kDLFloat) {
    const double number = value.cast<double>();
    if (type.bits == 64) return Pack(number);
    if (type.bits == 32) return Pack(static_cast<float>(number));
    if (type.bits == 16) return Pack(ToHalf(number));
  } else if (type.lanes == 1 && (type.code == kDLInt || type.code == kDLUInt || type.code == kDLBool)) {
    const int64_t number = value.cast<int64_t>();
    if (type.bits == 64) return Pack(number);
    if (type.bits == 32) return Pack(static_cast<int32_t>(number));
    if (type.bits == 16) return Pack(static_cast<int16_t>(number));
    if (type.bits == 8 || type.bits == 1) return Pack(static_cast<int8_t>(number));
  }
  TVM_FFI_THROW(TypeError) << "OpenCL: kernels take no numbers of type " << tvm::ffi::DLDataTypeToString(type);
  TVM_FFI_UNREACHABLE();
}

}  // namespace opencl
}  // namespace tvmake
