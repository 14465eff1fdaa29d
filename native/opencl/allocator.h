// The virtual machine's memory.
#pragma once

#include <tvm/runtime/memory/memory_manager.h>

#include <string>

#include "device.h"

namespace tvmake {
namespace opencl {

/// Gives the virtual machine buffers by size, and textures by shape and memory scope. The pooled kind keeps what is
/// given back for the next run; the naive kind gives it back to the driver. Textures within planned storage always
/// come from the pool: a program makes the same ones in every run.
class OpenCLAllocator : public tvm::runtime::memory::Allocator {
 public:
  explicit OpenCLAllocator(tvm::runtime::memory::AllocatorType type) : Allocator(type) {}

  tvm::runtime::memory::Buffer Alloc(tvm::Device device, size_t bytes, size_t alignment, DLDataType hint) final;
  tvm::runtime::memory::Buffer Alloc(tvm::Device device, tvm::ffi::Shape shape, DLDataType dtype,
                                     const std::string& scope) final;
  void* CreateView(const tvm::runtime::memory::Buffer& buffer, tvm::ffi::Shape shape, DLDataType dtype,
                   const std::string& scope) final;
  void FreeView(tvm::Device device, void* data) final;
  void Free(const tvm::runtime::memory::Buffer& buffer) final;
  void Clear() final;
  size_t UsedMemory() const final;

 protected:
  bool AllowMemoryScope(const std::string& scope) const final;
};

}  // namespace opencl
}  // namespace tvmake
