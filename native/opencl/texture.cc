#include "texture.h"

#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>

namespace tvmake {
namespace opencl {
namespace {

struct Channel {
  uint8_t code;
  uint8_t bits;
  cl_uint type;
};

constexpr Channel kChannels[] = {
    {kDLFloat, 32, CL_FLOAT},         {kDLFloat, 16, CL_HALF_FLOAT},    {kDLInt, 8, CL_SIGNED_INT8},
    {kDLInt, 16, CL_SIGNED_INT16},    {kDLInt, 32, CL_SIGNED_INT32},    {kDLUInt, 8, CL_UNSIGNED_INT8},
    {kDLUInt, 16, CL_UNSIGNED_INT16}, {kDLUInt, 32, CL_UNSIGNED_INT32},
};

// Index of the first dimension that belongs to the width.
int FirstOfWidth(const std::string& scope, int rank) {
  if (scope == "global.texture") return rank - 2;
  if (scope == "global.texture-weight") return 1;
  if (scope == "global.texture-nhwc") return 2;
  TVM_FFI_THROW(ValueError) << "OpenCL: '" << scope << "' is not a kind of texture; the kinds are "
                            << "global.texture, global.texture-weight and global.texture-nhwc";
  TVM_FFI_UNREACHABLE();
}

}  // namespace

bool IsTexture(const std::string& scope) { return scope.compare(0, 14, "global.texture") == 0; }

ImageShape TextureShape(const std::string& scope, int rank, const int64_t* shape, DLDataType dtype) {
  if (rank < 3 || shape[rank - 1] * dtype.lanes != 4) {
    TVM_FFI_THROW(ValueError) << "OpenCL: a texture needs at least 3 dimensions, the last one of 4 elements; "
                              << "this one has " << rank << ", the last one of " << (rank > 0 ? shape[rank - 1] : 0);
  }
  int first_of_width = FirstOfWidth(scope, rank);
  size_t layers = 1;
  for (int i = 0; i < first_of_width - 1; ++i) layers *= static_cast<size_t>(shape[i]);
  size_t width = 1;
  for (int i = first_of_width; i < rank - 1; ++i) width *= static_cast<size_t>(shape[i]);
  return TextureShape(width, static_cast<size_t>(shape[first_of_width - 1]), layers, dtype);
}

ImageShape TextureShape(size_t width, size_t height, size_t layers, DLDataType dtype) {
  for (const Channel& channel : kChannels) {
    if (channel.code == dtype.code && channel.bits == dtype.bits) {
      return {width, height, layers, channel.type, channel.bits / size_t{8}};
    }
  }
  TVM_FFI_THROW(ValueError) << "OpenCL: textures hold no elements of type " << tvm::ffi::DLDataTypeToString(dtype);
  TVM_FFI_UNREACHABLE();
}

}  // namespace opencl
}  // namespace tvmake
