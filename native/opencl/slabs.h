// Small buffers as parts of larger ones: a network has hundreds of them (biases, scales), and a driver rounds each
// allocation up to a page or more.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "api.h"

namespace tvmake {
namespace opencl {

class Device;

/// Hands out aligned parts of buffers of a fixed size. A part that is given back may be handed out at once: the
/// device's queue runs what still uses it before what will.
class Slabs {
 public:
  static constexpr size_t kSlabBytes = size_t{256} << 10;
  static constexpr size_t kLargest = size_t{16} << 10;

  struct Slab {
    cl_mem buffer = nullptr;
    std::map<size_t, size_t> free;  // offset -> bytes; neighbours are joined
  };

  struct Region {
    Slab* slab = nullptr;
    cl_mem handle = nullptr;
    size_t offset = 0;
    size_t bytes = 0;
  };

  /// Whether a buffer of this size is small enough. TVMAKE_OPENCL_SLABS=0 turns parts off, so that a tool that checks
  /// accesses (oclgrind) knows each buffer's end.
  static bool IsFor(size_t bytes);

  explicit Slabs(Device* device);

  Region Take(size_t bytes);
  void Give(const Region& region);

 private:
  Slab* SlabFor(size_t bytes, size_t* offset);

  Device* device_;
  size_t alignment_;
  std::recursive_mutex mutex_;  // a new slab may make the pool give up small buffers, which come back here
  std::vector<std::unique_ptr<Slab>> slabs_;
};

}  // namespace opencl
}  // namespace tvmake
