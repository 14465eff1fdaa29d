#include "slabs.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "device.h"

namespace tvmake {
namespace opencl {

bool Slabs::IsFor(size_t bytes) {
  static const bool is_on = [] {
    const char* set = std::getenv("TVMAKE_OPENCL_SLABS");
    return set == nullptr || std::string(set) != "0";
  }();
  return is_on && bytes <= kLargest;
}

Slabs::Slabs(Device* device) : device_(device), alignment_(std::max<size_t>(device->facts().address_alignment, 64)) {}

Slabs::Region Slabs::Take(size_t bytes) {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  Region region;
  region.bytes = (std::max<size_t>(bytes, 1) + alignment_ - 1) / alignment_ * alignment_;
  region.slab = SlabFor(region.bytes, &region.offset);
  const cl_buffer_region part = {region.offset, region.bytes};
  cl_int code = CL_SUCCESS;
  region.handle =
      GetApi().clCreateSubBuffer(region.slab->buffer, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &part, &code);
  Check(code, "cannot take a part of a buffer");
  auto hole = region.slab->free.find(region.offset);
  size_t left = hole->second - region.bytes;
  region.slab->free.erase(hole);
  if (left != 0) region.slab->free[region.offset + region.bytes] = left;
  return region;
}

Slabs::Slab* Slabs::SlabFor(size_t bytes, size_t* offset) {
  for (const auto& slab : slabs_) {
    for (const auto& [start, size] : slab->free) {
      if (size >= bytes) {
        *offset = start;
        return slab.get();
      }
    }
  }
  cl_context context = device_->context();
  auto slab = std::make_unique<Slab>();
  slab->buffer = device_->Allocate(kSlabBytes, "a buffer for small ones", [&](cl_int* code) {
    return GetApi().clCreateBuffer(context, CL_MEM_READ_WRITE, kSlabBytes, nullptr, code);
  });
  slab->free[0] = kSlabBytes;
  slabs_.push_back(std::move(slab));
  *offset = 0;
  return slabs_.back().get();
}

void Slabs::Give(const Region& region) {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  GetApi().clReleaseMemObject(region.handle);
  auto& free = region.slab->free;
  auto next = free.lower_bound(region.offset);
  size_t offset = region.offset;
  size_t bytes = region.bytes;
  if (next != free.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = free.erase(next);
  }
  if (next != free.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      free.erase(before);
    }
  }
  free[offset] = bytes;
  // One slab stays for the next small buffer; the driver frees the others once commands no longer need them.
  if (bytes == kSlabBytes && slabs_.size() > 1) {
    GetApi().clReleaseMemObject(region.slab->buffer);
    slabs_.erase(
        std::find_if(slabs_.begin(), slabs_.end(), [&](const auto& slab) { return slab.get() == region.slab; }));
  }
}

}  // namespace opencl
}  // namespace tvmake
