#include "driver.h"

#include <cstring>
#include <string>

using namespace tvmake::opencl;
using tvmake::testing::Allocation;
using tvmake::testing::FakeDriver;
using tvmake::testing::GetFakeDriver;

namespace tvmake::testing {

FakeDriver& GetFakeDriver() {
  static FakeDriver driver;
  return driver;
}

}  // namespace tvmake::testing

namespace {

constexpr cl_int kInvalidValue = -30, kInvalidMemory = -38, kInvalidOperation = -59;

template <typename Handle>
Handle HandleOf(uintptr_t number) {
  return reinterpret_cast<Handle>(number);
}

cl_int Answer(const void* value, size_t value_size, size_t size, void* destination, size_t* needed) {
  if (needed) *needed = value_size;
  if (!destination) return CL_SUCCESS;
  if (size < value_size) return kInvalidValue;
  std::memcpy(destination, value, value_size);
  return CL_SUCCESS;
}

cl_mem Allocate(Allocation allocation, cl_int* code) {
  FakeDriver& driver = GetFakeDriver();
  if (allocation.bytes == 0) {
    *code = kInvalidValue;
    ++driver.violations;
    return nullptr;
  }
  if (!allocation.whole && driver.UsedBytes() + allocation.bytes > driver.capacity) {
    *code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    return nullptr;
  }
  static uintptr_t next = 0x1000;
  const auto handle = HandleOf<cl_mem>(next++);
  driver.live[handle] = allocation;
  *code = CL_SUCCESS;
  return handle;
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED cl_int clGetPlatformIDs(cl_uint, cl_platform_id* platforms, cl_uint* count) {
  if (platforms) *platforms = HandleOf<cl_platform_id>(1);
  if (count) *count = 1;
  return CL_SUCCESS;
}

EXPORTED cl_int clGetPlatformInfo(cl_platform_id, cl_info, size_t size, void* value, size_t* needed) {
  return Answer("Fake", 5, size, value, needed);
}

EXPORTED cl_int clGetDeviceIDs(cl_platform_id, cl_bitfield, cl_uint, cl_device_id* devices, cl_uint* count) {
  if (devices) *devices = HandleOf<cl_device_id>(1);
  if (count) *count = 1;
  return CL_SUCCESS;
}

EXPORTED cl_int clGetDeviceInfo(cl_device_id, cl_info what, size_t size, void* value, size_t* needed) {
  const auto number = [&](auto answer) { return Answer(&answer, sizeof answer, size, value, needed); };
  switch (what) {
    case CL_DEVICE_NAME:
    case CL_DEVICE_VENDOR:
    case CL_DEVICE_VERSION:
    case CL_DRIVER_VERSION:
    case CL_DEVICE_EXTENSIONS: return Answer("Fake", 5, size, value, needed);
    case CL_DEVICE_TYPE: return number(CL_DEVICE_TYPE_GPU);
    case CL_DEVICE_MAX_COMPUTE_UNITS:
    case CL_DEVICE_MAX_CLOCK_FREQUENCY: return number(cl_uint{1});
    case CL_DEVICE_IMAGE_SUPPORT: return number(CL_TRUE);
    case CL_DEVICE_MEM_BASE_ADDR_ALIGN: return number(static_cast<cl_uint>(FakeDriver::kAlignment * 8));
    case CL_DEVICE_IMAGE2D_MAX_WIDTH: return number(FakeDriver::kImageWidth);
    case CL_DEVICE_IMAGE2D_MAX_HEIGHT: return number(FakeDriver::kImageHeight);
    case CL_DEVICE_IMAGE_MAX_ARRAY_SIZE: return number(FakeDriver::kImageLayers);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE: return number(size_t{256});
    case CL_DEVICE_MAX_WORK_ITEM_SIZES: {
      const size_t items[] = {256, 256, 64};
      return Answer(items, sizeof items, size, value, needed);
    }
    case CL_DEVICE_LOCAL_MEM_SIZE:
    case CL_DEVICE_GLOBAL_MEM_SIZE:
    case CL_DEVICE_GLOBAL_MEM_CACHE_SIZE:
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE: return number(cl_ulong{1} << 30);
    default: return kInvalidValue;
  }
}

EXPORTED cl_context clCreateContext(const cl_context_properties*, cl_uint, const cl_device_id*,
                                    void (*)(const char*, const void*, size_t, void*), void*, cl_int* code) {
  *code = CL_SUCCESS;
  return HandleOf<cl_context>(1);
}

EXPORTED cl_command_queue clCreateCommandQueue(cl_context, cl_device_id, cl_bitfield, cl_int* code) {
  *code = CL_SUCCESS;
  return HandleOf<cl_command_queue>(1);
}

EXPORTED cl_int clFinish(cl_command_queue) { return CL_SUCCESS; }

EXPORTED cl_mem clCreateBuffer(cl_context, cl_bitfield, size_t bytes, void*, cl_int* code) {
  ++GetFakeDriver().buffers;
  return Allocate({bytes, nullptr, 0, false}, code);
}

EXPORTED cl_mem clCreateSubBuffer(cl_mem whole, cl_bitfield, cl_uint, const void* region, cl_int* code) {
  FakeDriver& driver = GetFakeDriver();
  const auto* part = static_cast<const cl_buffer_region*>(region);
  const auto found = driver.live.find(whole);
  bool is_valid = found != driver.live.end() && !found->second.whole && part->origin % FakeDriver::kAlignment == 0 &&
                  part->origin + part->size <= found->second.bytes;
  for (const auto& [handle, other] : driver.live) {
    if (other.whole != whole) continue;
    is_valid &= part->origin + part->size <= other.offset || other.offset + other.bytes <= part->origin;
  }
  if (!is_valid) ++driver.violations;
  return Allocate({part->size, whole, part->origin, false}, code);
}

EXPORTED cl_mem clCreateImage(cl_context, cl_bitfield, const cl_image_format*, const cl_image_desc* image, void*,
                              cl_int* code) {
  FakeDriver& driver = GetFakeDriver();
  ++driver.images;
  if (image->image_width > FakeDriver::kImageWidth || image->image_height > FakeDriver::kImageHeight) {
    ++driver.violations;
  }
  return Allocate({image->image_width * image->image_height * image->image_array_size * 16, nullptr, 0, true}, code);
}

EXPORTED cl_int clReleaseMemObject(cl_mem memory) {
  FakeDriver& driver = GetFakeDriver();
  bool is_valid = driver.live.count(memory) != 0;
  for (const auto& [handle, other] : driver.live) is_valid &= other.whole != memory;
  if (!is_valid) ++driver.violations;
  return driver.live.erase(memory) ? CL_SUCCESS : kInvalidMemory;
}

// The runtime looks for these, too; no test comes to call them.
#define UNUSED(name) \
  EXPORTED cl_int name() { return kInvalidOperation; }
UNUSED(clEnqueueReadBuffer)
UNUSED(clEnqueueWriteBuffer)
UNUSED(clEnqueueCopyBuffer)
UNUSED(clEnqueueReadImage)
UNUSED(clEnqueueWriteImage)
UNUSED(clEnqueueCopyImage)
UNUSED(clEnqueueCopyImageToBuffer)
UNUSED(clEnqueueCopyBufferToImage)
UNUSED(clEnqueueNDRangeKernel)
UNUSED(clRetainEvent)
UNUSED(clReleaseEvent)
UNUSED(clGetEventProfilingInfo)
UNUSED(clCreateProgramWithSource)
UNUSED(clCreateProgramWithBinary)
UNUSED(clBuildProgram)
UNUSED(clGetProgramBuildInfo)
UNUSED(clGetProgramInfo)
UNUSED(clReleaseProgram)
UNUSED(clCreateKernel)
UNUSED(clGetKernelInfo)
UNUSED(clReleaseKernel)
UNUSED(clSetKernelArg)
UNUSED(clGetKernelWorkGroupInfo)
