#include "scalar.h"

#include <doctest/doctest.h>
#include <tvm/ffi/error.h>

#include <cstring>

using namespace tvmake::opencl;

namespace {

template <typename Value, typename Source>
Value Narrowed(Source source, uint8_t code, uint8_t bits) {
  const Scalar scalar = ToScalar(tvm::ffi::AnyView(source), DLDataType{code, bits, 1});
  REQUIRE(scalar.bytes == sizeof(Value));
  Value value;
  std::memcpy(&value, scalar.data, sizeof value);
  return value;
}

}  // namespace

TEST_CASE("numbers get the kernel's own width") {
  CHECK(Narrowed<int32_t>(int64_t{-5}, kDLInt, 32) == -5);
  CHECK(Narrowed<uint8_t>(int64_t{200}, kDLUInt, 8) == 200);
  CHECK(Narrowed<int16_t>(int64_t{-300}, kDLInt, 16) == -300);
  CHECK(Narrowed<int64_t>(INT64_MIN, kDLInt, 64) == INT64_MIN);
  CHECK(Narrowed<float>(0.1, kDLFloat, 32) == 0.1f);
  CHECK(Narrowed<double>(0.1, kDLFloat, 64) == 0.1);
  CHECK(Narrowed<uint16_t>(1.0, kDLFloat, 16) == 0x3c00);
  CHECK(Narrowed<int8_t>(int64_t{1}, kDLBool, 8) == 1);
}

TEST_CASE("types that no kernel takes are refused") {
  for (const DLDataType type : {DLDataType{kDLInt, 32, 2}, DLDataType{kDLFloat, 8, 1}, DLDataType{kDLBfloat, 16, 1},
                                DLDataType{kDLInt, 4, 1}}) {
    CHECK_THROWS_AS(ToScalar(tvm::ffi::AnyView(int64_t{1}), type), tvm::ffi::Error);
  }
  CHECK_THROWS_AS(ToScalar(tvm::ffi::AnyView(0.5), DLDataType{kDLInt, 32, 1}), tvm::ffi::Error);
}
