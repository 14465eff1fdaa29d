#include "pool.h"

#include "device.h"

namespace tvmake {
namespace opencl {
namespace {

constexpr size_t kPage = 4096;  // sizes are rounded up to it, so that nearly equal ones share their buffers

}  // namespace

Memory* Pool::TakeBuffer(size_t bytes) {
  if (!Slabs::IsFor(bytes)) bytes = (bytes + kPage - 1) / kPage * kPage;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = buffers_.lower_bound(bytes);
    if (found != buffers_.end() && found->first - bytes <= found->first / 4) {
      Memory* memory = found->second;
      buffers_.erase(found);
      return memory;
    }
  }
  Memory* memory = Memory::LateBuffer(device_, bytes);
  Count(*memory);
  return memory;
}

Memory* Pool::TakeImage(const ImageShape& shape) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto [first, last] = images_.equal_range(shape.bytes());
    for (auto found = first; found != last; ++found) {
      if (*found->second->image() == shape) {
        Memory* memory = found->second;
        images_.erase(found);
        return memory;
      }
    }
  }
  Memory* memory = Memory::Image(device_, shape);
  Count(*memory);
  return memory;
}

void Pool::Count(const Memory& memory) {
  std::lock_guard<std::mutex> lock(mutex_);
  held_bytes_ += memory.bytes();
}

void Pool::Give(Memory* memory) {
  std::lock_guard<std::mutex> lock(mutex_);
  (memory->image() != nullptr ? images_ : buffers_).emplace(memory->bytes(), memory);
}

void Pool::Trim() {
  std::multimap<size_t, Memory*> buffers;
  std::multimap<size_t, Memory*> images;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    buffers.swap(buffers_);
    images.swap(images_);
    for (const auto& [bytes, memory] : buffers) held_bytes_ -= bytes;
    for (const auto& [bytes, memory] : images) held_bytes_ -= bytes;
  }
  for (const auto& [bytes, memory] : buffers) delete memory;
  for (const auto& [bytes, memory] : images) delete memory;
}

size_t Pool::HeldBytes() {
  std::lock_guard<std::mutex> lock(mutex_);
  return held_bytes_;
}

}  // namespace opencl
}  // namespace tvmake
