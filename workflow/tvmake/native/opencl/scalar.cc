#include "scalar.h"

#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>

#include <cmath>
#include <cstring>

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

uint16_t ToHalf(double value) {
  constexpr double kSmallestNormal = 6.103515625e-05;  // 2^-14
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double size = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (size < kSmallestNormal) {
    // Subnormal: a multiple of 2^-24; rounding up to 2^-14 gives the smallest normal number by itself.
    return sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(size, 24)));
  }
  if (size >= 65520.0) return sign | 0x7c00;  // halfway between the largest float16 and the next power of two
  int exponent = 0;
  const double fraction = std::frexp(size, &exponent);  // size = fraction * 2^exponent, fraction in [0.5, 1)
  // 11 significant bits; a carry into the exponent is right as it is.
  const auto bits = static_cast<uint32_t>(std::nearbyint(std::ldexp(fraction, 11)));
  return sign | static_cast<uint16_t>(((exponent + 13) << 10) + bits);
}

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
