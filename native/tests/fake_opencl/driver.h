// An OpenCL library of one device without any hardware: it records what is allocated, and can run out of memory.
#ifndef TVMAKE_TESTS_FAKE_OPENCL_DRIVER_H_
#define TVMAKE_TESTS_FAKE_OPENCL_DRIVER_H_

#include <cstddef>
#include <map>

#include "api.h"

namespace tvmake::testing {

struct Allocation {
  size_t bytes = 0;
  opencl::cl_mem whole = nullptr;  // of a sub-buffer: its buffer
  size_t offset = 0;               // of a part
  bool is_image = false;
};

struct FakeDriver {
  static constexpr size_t kAlignment = 128;  // bytes
  static constexpr size_t kImageWidth = 256, kImageHeight = 128, kImageLayers = 64;

  std::map<opencl::cl_mem, Allocation> live;
  size_t capacity = size_t{1} << 40;  // bytes; an allocation beyond fails
  int buffers = 0, images = 0;        // created so far
  int violations = 0;                 // calls that OpenCL forbids

  size_t UsedBytes() const {
    size_t bytes = 0;
    for (const auto& [handle, allocation] : live) bytes += allocation.whole ? 0 : allocation.bytes;
    return bytes;
  }
};

// The state of the driver in this process.
__attribute__((visibility("default"))) FakeDriver& GetFakeDriver();

}  // namespace tvmake::testing

#endif  // TVMAKE_TESTS_FAKE_OPENCL_DRIVER_H_
