#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "virtual_machine.h"

using namespace tvmake;

namespace {

TensorSpec Spec() {
  TensorSpec spec;
  spec.name = "x";
  spec.dtype = "float32";
  spec.shape = {kDynamic, 3};
  spec.names = {"n", ""};
  return spec;
}

}  // namespace

TEST_CASE("the size of a value") {
  CHECK(BytesOf("float32", {}) == 4);
  CHECK(BytesOf("float16", {2, 3}) == 12);
  CHECK(BytesOf("bool", {7}) == 7);
  CHECK(BytesOf("int64", {5, 0, 1000000}) == 0);
}

TEST_CASE("a size that overflows or no device has is refused") {
  constexpr int64_t kLarge = int64_t{1} << 32;
  const std::vector<std::vector<int64_t>> shapes = {
      {kLarge, kLarge}, {kLarge, kLarge, 1}, {INT64_MAX}, {INT64_MAX, 2}, {-1}, {3, -5}, {(int64_t{1} << 40) + 1}};
  for (const auto& shape : shapes) {
    CAPTURE(shape[0]);
    CHECK_THROWS_AS(BytesOf("int8", shape), Error);
  }
}

TEST_CASE("a value fits when its type is the same and its shape agrees") {
  CHECK_NOTHROW(CheckFits(Spec(), "float32", {1, 3}));
  CHECK_NOTHROW(CheckFits(Spec(), "float32", {0, 3}));
  CHECK_THROWS_WITH_AS(CheckFits(Spec(), "float64", {1, 3}),
                       "inputs: input 'x' is float64[1, 3], the package takes float32[n, 3]", Error);
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{}, {1}, {1, 4}, {-1, 3}, {1, 3, 1}}) {
    CHECK_THROWS_AS(CheckFits(Spec(), "float32", shape), Error);
  }
}
