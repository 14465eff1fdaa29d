// Memory on a device: a buffer, a part of one, or a texture.
#pragma once

#include <cstddef>

#include "api.h"
#include "slabs.h"

namespace tvmake {
namespace opencl {

class Device;

/// Extents of a texture: an array of two-dimensional images of four channels.
struct ImageShape {
  size_t width = 0;
  size_t height = 0;
  size_t layers = 0;
  cl_uint channel_type = 0;
  size_t channel_bytes = 0;

  size_t bytes() const { return width * height * layers * 4 * channel_bytes; }
  bool operator==(const ImageShape& other) const;
};

/// What the `data` pointer of a tensor on an OpenCL device points to.
class Memory {
 public:
  /// A buffer that is allocated at once. `bytes` may be 0.
  static Memory* Buffer(Device* device, size_t bytes);
  /// A buffer that is allocated when it is first used as one. The virtual machine plans its storage in bytes and then
  /// asks for textures in it; such storage never becomes a buffer, and costs nothing.
  static Memory* LateBuffer(Device* device, size_t bytes);
  static Memory* Image(Device* device, const ImageShape& shape);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  Device& device() const { return *device_; }
  size_t bytes() const { return bytes_; }
  /// Null for a buffer.
  const ImageShape* image() const { return is_image_ ? &shape_ : nullptr; }
  /// Whether it is a part of a larger buffer.
  bool is_part() const { return !is_image_ && Slabs::IsFor(bytes_); }
  /// OpenCL's handle; throws RuntimeError when it has to be allocated and memory is short.
  cl_mem handle();

 private:
  Memory(Device* device, size_t bytes) : device_(device), bytes_(bytes) {}
  void MakeBuffer();

  Device* device_;
  size_t bytes_;
  bool is_image_ = false;
  ImageShape shape_;
  cl_mem handle_ = nullptr;
  Slabs::Region region_;  // of a small buffer
};

}  // namespace opencl
}  // namespace tvmake
