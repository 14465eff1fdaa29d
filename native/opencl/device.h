// One OpenCL device: what it is, and its context, queue and memory once it is used.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "api.h"
#include "pool.h"
#include "queue.h"
#include "slabs.h"

namespace tvmake {
namespace opencl {

/// The properties of a device. Sizes in bytes.
struct DeviceFacts {
  std::string platform;
  std::string platform_version;
  std::string name;
  std::string vendor;
  std::string version;
  std::string driver;
  cl_bitfield type = 0;
  cl_uint compute_units = 0;
  cl_uint clock_mhz = 0;
  size_t max_group = 0;
  size_t max_items[3] = {0, 0, 0};
  cl_ulong local_bytes = 0;
  cl_ulong global_bytes = 0;
  cl_ulong cache_bytes = 0;
  cl_ulong max_allocation = 0;
  size_t address_alignment = 0;
  bool has_images = false;
  size_t image_width = 0;
  size_t image_height = 0;
  size_t image_layers = 0;
  cl_uint image_pitch_alignment = 0;
  bool has_half = false;
};

/// A device has a context of its own, so that any mix of platforms works side by side.
class Device {
 public:
  Device(cl_platform_id platform, cl_device_id id);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceFacts& facts() const { return facts_; }
  cl_device_id id() const { return id_; }

  /// These open the device at the first use.
  cl_context context();
  Queue& queue();
  Pool& pool();
  Slabs& slabs();

  /// Calls `create(cl_int* code)` for `bytes` of memory; when memory is short, again after giving up what is unused.
  template <typename Create>
  cl_mem Allocate(size_t bytes, const char* what, Create create) {
    cl_int code = CL_SUCCESS;
    cl_mem memory = create(&code);
    if (IsOutOfMemory(code)) {
      queue().Finish();
      pool().Trim();
      memory = create(&code);
    }
    if (code != CL_SUCCESS) FailAllocation(code, bytes, what);
    return memory;
  }

 private:
  void Open();
  [[noreturn]] void FailAllocation(cl_int code, size_t bytes, const char* what) const;

  cl_platform_id platform_;
  cl_device_id id_;
  DeviceFacts facts_;
  std::once_flag opened_;
  cl_context context_ = nullptr;
  std::unique_ptr<Queue> queue_;
  std::unique_ptr<Slabs> slabs_;
  std::unique_ptr<Pool> pool_;
};

/// The device that TVM calls `opencl(index)`: GPUs first, then other accelerators, then CPUs, in the order in which
/// the platforms list them. TVMAKE_OPENCL_PLATFORM narrows them to platforms whose name contains it.
/// Throws RuntimeError if the device does not exist.
Device& GetDevice(int index);

/// How many devices there are; none where no OpenCL library is.
size_t CountDevices();

}  // namespace opencl
}  // namespace tvmake
