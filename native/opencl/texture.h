// The layout of a tensor in a texture.
#pragma once

#include <dlpack/dlpack.h>

#include <string>

#include "memory.h"

namespace tvmake {
namespace opencl {

/// Whether a memory scope of TVM's means a texture.
bool IsTexture(const std::string& scope);

/// The texture of a tensor whose last dimension is its four channels. The scope says which of the other dimensions go
/// into the width and which one is the height; those before it are the layers:
///   global.texture         the last one is the width, the one before it the height   (N, C, H, W, 4)
///   global.texture-weight  the first one is the height, all others the width         (O, I, H, W, 4)
///   global.texture-nhwc    the second one is the height, those after it the width    (N, H, W, C, 4)
/// TVM's code generator addresses textures by the same rule. Throws ValueError for other scopes and shapes.
ImageShape TextureShape(const std::string& scope, int rank, const int64_t* shape, DLDataType dtype);

/// A texture of these extents in pixels, for elements of type `dtype`.
ImageShape TextureShape(size_t width, size_t height, size_t layers, DLDataType dtype);

}  // namespace opencl
}  // namespace tvmake
