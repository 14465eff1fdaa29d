// Memory that was given back, kept for the next request of that size.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

#include "memory.h"

namespace tvmake {
namespace opencl {

/// The virtual machine takes and gives back the same storage and textures in every run, kernels the same workspace.
/// Creating one takes a driver from microseconds to milliseconds.
class Pool {
 public:
  explicit Pool(Device* device) : device_(device) {}

  /// A buffer of at least `bytes`: the smallest free one unless a quarter of it would be wasted, or a new one.
  Memory* TakeBuffer(size_t bytes);
  /// A texture of exactly this shape.
  Memory* TakeImage(const ImageShape& shape);
  void Give(Memory* memory);
  /// Gives everything that is free back to the driver.
  void Trim();

  /// Bytes allocated here and not given back to the driver, in use or free.
  size_t HeldBytes();

 private:
  void Count(const Memory& memory);

  Device* device_;
  std::mutex mutex_;
  std::multimap<size_t, Memory*> buffers_;
  std::multimap<size_t, Memory*> images_;
  size_t held_bytes_ = 0;
};

}  // namespace opencl
}  // namespace tvmake
