#include "allocator.h"

#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>

#include "memory.h"
#include "texture.h"

namespace tvmake {
namespace opencl {
namespace {

namespace ffi = tvm::ffi;
using tvm::runtime::memory::AllocatorType;
using tvm::runtime::memory::Buffer;
using tvm::runtime::memory::kPooled;

bool IsFlat(const std::string& scope) { return scope.empty() || scope == "global"; }

ImageShape ShapeOf(const ffi::Shape& shape, DLDataType dtype, const std::string& scope) {
  return TextureShape(scope, static_cast<int>(shape.size()), shape.data(), dtype);
}

}  // namespace

Buffer OpenCLAllocator::Alloc(tvm::Device device, size_t bytes, size_t, DLDataType) {
  Device& opencl = GetDevice(device.device_id);
  Memory* memory = type() == kPooled ? opencl.pool().TakeBuffer(bytes) : Memory::LateBuffer(&opencl, bytes);
  return {memory, bytes, device, type()};
}

Buffer OpenCLAllocator::Alloc(tvm::Device device, ffi::Shape shape, DLDataType dtype, const std::string& scope) {
  if (IsFlat(scope)) {
    return Alloc(device, ffi::GetDataSize(static_cast<size_t>(shape.Product()), dtype), 0, dtype);
  }
  Device& opencl = GetDevice(device.device_id);
  const ImageShape image = ShapeOf(shape, dtype, scope);
  Memory* memory = type() == kPooled ? opencl.pool().TakeImage(image) : Memory::Image(&opencl, image);
  return {memory, memory->bytes(), device, type()};
}

void* OpenCLAllocator::CreateView(const Buffer& buffer, ffi::Shape shape, DLDataType dtype, const std::string& scope) {
  if (IsFlat(scope)) return buffer.data;
  return GetDevice(buffer.device.device_id).pool().TakeImage(ShapeOf(shape, dtype, scope));
}

void OpenCLAllocator::FreeView(tvm::Device, void* data) {
  // A view that is not a texture is the storage itself, which `Free` releases.
  auto* memory = static_cast<Memory*>(data);
  if (memory->image() != nullptr && !IsForked()) memory->device().pool().Give(memory);
}

void OpenCLAllocator::Free(const Buffer& buffer) {
  auto* memory = static_cast<Memory*>(buffer.data);
  if (buffer.alloc_type == kPooled && !IsForked()) {
    memory->device().pool().Give(memory);
  } else {
    delete memory;
  }
}

void OpenCLAllocator::Clear() {
  for (size_t i = 0; i < CountDevices(); ++i) GetDevice(static_cast<int>(i)).pool().Trim();
}

size_t OpenCLAllocator::UsedMemory() const {
  size_t bytes = 0;
  for (size_t i = 0; i < CountDevices(); ++i) bytes += GetDevice(static_cast<int>(i)).pool().HeldBytes();
  return bytes;
}

bool OpenCLAllocator::AllowMemoryScope(const std::string& scope) const { return IsFlat(scope) || IsTexture(scope); }

TVM_FFI_STATIC_INIT_BLOCK() {
  ffi::reflection::GlobalDef().def("DeviceAllocator.opencl", [](DLDevice, int type) {
    tvm::runtime::memory::Allocator* allocator = new OpenCLAllocator(static_cast<AllocatorType>(type));
    return static_cast<void*>(allocator);  // the base's address: TVM casts it back to that
  });
}

}  // namespace opencl
}  // namespace tvmake
