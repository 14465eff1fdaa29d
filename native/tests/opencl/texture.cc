#include "texture.h"

#include <doctest/doctest.h>
#include <tvm/ffi/error.h>

#include <vector>

using namespace tvmake::opencl;

namespace {

constexpr DLDataType kFloat = {kDLFloat, 32, 1};

ImageShape Shape(const std::string& scope, const std::vector<int64_t>& shape, DLDataType dtype = kFloat) {
  return TextureShape(scope, static_cast<int>(shape.size()), shape.data(), dtype);
}

std::vector<size_t> Extents(const ImageShape& shape) { return {shape.width, shape.height, shape.layers}; }

}  // namespace

TEST_CASE("the scope says which dimensions are the width, the height and the layers") {
  CHECK(Extents(Shape("global.texture", {2, 3, 5, 7, 4})) == std::vector<size_t>{7, 5, 6});
  CHECK(Extents(Shape("global.texture-weight", {2, 3, 5, 7, 4})) == std::vector<size_t>{105, 2, 1});
  CHECK(Extents(Shape("global.texture-nhwc", {2, 3, 5, 7, 4})) == std::vector<size_t>{35, 3, 2});
  CHECK(Extents(Shape("global.texture", {3, 5, 4})) == std::vector<size_t>{5, 3, 1});
}

TEST_CASE("a pixel has four channels of the element type") {
  CHECK(Shape("global.texture", {3, 5, 4}).bytes() == 3 * 5 * 16);
  CHECK(Shape("global.texture", {3, 5, 4}, {kDLFloat, 16, 1}).bytes() == 3 * 5 * 8);
  CHECK(Shape("global.texture", {3, 5, 4}, {kDLInt, 8, 1}).channel_type == CL_SIGNED_INT8);
  CHECK(Shape("global.texture", {3, 5, 1}, {kDLFloat, 32, 4}).width == 5);
}

TEST_CASE("shapes, types and scopes that no texture has are refused") {
  CHECK_THROWS_AS(Shape("global.texture", {3, 4}), tvm::ffi::Error);
  CHECK_THROWS_AS(Shape("global.texture", {}), tvm::ffi::Error);
  CHECK_THROWS_AS(Shape("global.texture", {3, 5, 3}), tvm::ffi::Error);
  CHECK_THROWS_AS(Shape("global.texture-other", {3, 5, 4}), tvm::ffi::Error);
  CHECK_THROWS_AS(Shape("global.texture", {3, 5, 4}, {kDLFloat, 64, 1}), tvm::ffi::Error);
  CHECK(IsTexture("global.texture-weight"));
  CHECK_FALSE(IsTexture("global"));
}
