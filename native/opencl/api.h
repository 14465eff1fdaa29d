// The part of OpenCL 1.2's C interface that is used here, and its library, opened at the first use.
//
// Types, constants and functions are those of Khronos' CL/cl.h under their own names. They are declared here so that
// the runtime compiles without Khronos' headers, for any target; the library is opened with dlopen, never linked, so
// that the runtime loads where no OpenCL is installed, and a process can still fork before its first OpenCL call.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tvmake {
namespace opencl {

using cl_int = int32_t;
using cl_uint = uint32_t;
using cl_ulong = uint64_t;
using cl_bool = cl_uint;
using cl_bitfield = cl_ulong;
using cl_info = cl_uint;  // cl_platform_info, cl_device_info, …: all are cl_uint

using cl_platform_id = struct _cl_platform_id*;
using cl_device_id = struct _cl_device_id*;
using cl_context = struct _cl_context*;
using cl_command_queue = struct _cl_command_queue*;
using cl_mem = struct _cl_mem*;
using cl_program = struct _cl_program*;
using cl_kernel = struct _cl_kernel*;
using cl_event = struct _cl_event*;
using cl_context_properties = intptr_t;

struct cl_image_format {
  cl_uint image_channel_order;
  cl_uint image_channel_data_type;
};

struct cl_image_desc {
  cl_uint image_type;
  size_t image_width;
  size_t image_height;
  size_t image_depth;
  size_t image_array_size;
  size_t image_row_pitch;
  size_t image_slice_pitch;
  cl_uint num_mip_levels;
  cl_uint num_samples;
  cl_mem buffer;
};

struct cl_buffer_region {
  size_t origin;
  size_t size;
};

constexpr cl_bool CL_TRUE = 1;

constexpr cl_int CL_SUCCESS = 0;
constexpr cl_int CL_DEVICE_NOT_FOUND = -1;
constexpr cl_int CL_MEM_OBJECT_ALLOCATION_FAILURE = -4;
constexpr cl_int CL_OUT_OF_RESOURCES = -5;
constexpr cl_int CL_OUT_OF_HOST_MEMORY = -6;
constexpr cl_int CL_PLATFORM_NOT_FOUND_KHR = -1001;

constexpr cl_info CL_PLATFORM_VERSION = 0x0901;
constexpr cl_info CL_PLATFORM_NAME = 0x0902;

constexpr cl_bitfield CL_DEVICE_TYPE_CPU = 1 << 1;
constexpr cl_bitfield CL_DEVICE_TYPE_GPU = 1 << 2;
constexpr cl_bitfield CL_DEVICE_TYPE_ALL = 0xFFFFFFFF;

constexpr cl_info CL_DEVICE_TYPE = 0x1000;
constexpr cl_info CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002;
constexpr cl_info CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004;
constexpr cl_info CL_DEVICE_MAX_WORK_ITEM_SIZES = 0x1005;
constexpr cl_info CL_DEVICE_MAX_CLOCK_FREQUENCY = 0x100C;
constexpr cl_info CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010;
constexpr cl_info CL_DEVICE_IMAGE2D_MAX_WIDTH = 0x1011;
constexpr cl_info CL_DEVICE_IMAGE2D_MAX_HEIGHT = 0x1012;
constexpr cl_info CL_DEVICE_IMAGE_SUPPORT = 0x1016;
constexpr cl_info CL_DEVICE_MEM_BASE_ADDR_ALIGN = 0x1019;
constexpr cl_info CL_DEVICE_GLOBAL_MEM_CACHE_SIZE = 0x101E;
constexpr cl_info CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F;
constexpr cl_info CL_DEVICE_LOCAL_MEM_SIZE = 0x1023;
constexpr cl_info CL_DEVICE_NAME = 0x102B;
constexpr cl_info CL_DEVICE_VENDOR = 0x102C;
constexpr cl_info CL_DRIVER_VERSION = 0x102D;
constexpr cl_info CL_DEVICE_VERSION = 0x102F;
constexpr cl_info CL_DEVICE_EXTENSIONS = 0x1030;
constexpr cl_info CL_DEVICE_IMAGE_MAX_ARRAY_SIZE = 0x1041;
constexpr cl_info CL_DEVICE_IMAGE_PITCH_ALIGNMENT = 0x104A;

constexpr cl_context_properties CL_CONTEXT_PLATFORM = 0x1084;
constexpr cl_bitfield CL_QUEUE_PROFILING_ENABLE = 1 << 1;
constexpr cl_info CL_PROFILING_COMMAND_START = 0x1282;
constexpr cl_info CL_PROFILING_COMMAND_END = 0x1283;

constexpr cl_bitfield CL_MEM_READ_WRITE = 1 << 0;
constexpr cl_uint CL_BUFFER_CREATE_TYPE_REGION = 0x1220;
constexpr cl_uint CL_MEM_OBJECT_IMAGE2D_ARRAY = 0x10F3;
constexpr cl_uint CL_RGBA = 0x10B5;
constexpr cl_uint CL_SIGNED_INT8 = 0x10D7;
constexpr cl_uint CL_SIGNED_INT16 = 0x10D8;
constexpr cl_uint CL_SIGNED_INT32 = 0x10D9;
constexpr cl_uint CL_UNSIGNED_INT8 = 0x10DA;
constexpr cl_uint CL_UNSIGNED_INT16 = 0x10DB;
constexpr cl_uint CL_UNSIGNED_INT32 = 0x10DC;
constexpr cl_uint CL_HALF_FLOAT = 0x10DD;
constexpr cl_uint CL_FLOAT = 0x10DE;

constexpr cl_info CL_PROGRAM_BINARY_SIZES = 0x1165;
constexpr cl_info CL_PROGRAM_BINARIES = 0x1166;
constexpr cl_info CL_PROGRAM_BUILD_LOG = 0x1183;
constexpr cl_info CL_KERNEL_PROGRAM = 0x1194;
constexpr cl_info CL_KERNEL_WORK_GROUP_SIZE = 0x11B0;
constexpr cl_info CL_KERNEL_LOCAL_MEM_SIZE = 0x11B2;

// F(name, return type, parameters)
#define TVMAKE_OPENCL_FUNCTIONS(F)                                                                                     \
  F(clGetPlatformIDs, cl_int, (cl_uint, cl_platform_id*, cl_uint*))                                                    \
  F(clGetPlatformInfo, cl_int, (cl_platform_id, cl_info, size_t, void*, size_t*))                                      \
  F(clGetDeviceIDs, cl_int, (cl_platform_id, cl_bitfield, cl_uint, cl_device_id*, cl_uint*))                           \
  F(clGetDeviceInfo, cl_int, (cl_device_id, cl_info, size_t, void*, size_t*))                                          \
  F(clCreateContext, cl_context,                                                                                       \
    (const cl_context_properties*, cl_uint, const cl_device_id*, void (*)(const char*, const void*, size_t, void*),    \
     void*, cl_int*))                                                                                                  \
  F(clCreateCommandQueue, cl_command_queue, (cl_context, cl_device_id, cl_bitfield, cl_int*))                          \
  F(clCreateBuffer, cl_mem, (cl_context, cl_bitfield, size_t, void*, cl_int*))                                         \
  F(clCreateSubBuffer, cl_mem, (cl_mem, cl_bitfield, cl_uint, const void*, cl_int*))                                   \
  F(clCreateImage, cl_mem, (cl_context, cl_bitfield, const cl_image_format*, const cl_image_desc*, void*, cl_int*))    \
  F(clReleaseMemObject, cl_int, (cl_mem))                                                                              \
  F(clEnqueueReadBuffer, cl_int,                                                                                       \
    (cl_command_queue, cl_mem, cl_bool, size_t, size_t, void*, cl_uint, const cl_event*, cl_event*))                   \
  F(clEnqueueWriteBuffer, cl_int,                                                                                      \
    (cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void*, cl_uint, const cl_event*, cl_event*))             \
  F(clEnqueueCopyBuffer, cl_int,                                                                                       \
    (cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint, const cl_event*, cl_event*))                   \
  F(clEnqueueReadImage, cl_int,                                                                                        \
    (cl_command_queue, cl_mem, cl_bool, const size_t*, const size_t*, size_t, size_t, void*, cl_uint, const cl_event*, \
     cl_event*))                                                                                                       \
  F(clEnqueueWriteImage, cl_int,                                                                                       \
    (cl_command_queue, cl_mem, cl_bool, const size_t*, const size_t*, size_t, size_t, const void*, cl_uint,            \
     const cl_event*, cl_event*))                                                                                      \
  F(clEnqueueCopyImage, cl_int,                                                                                        \
    (cl_command_queue, cl_mem, cl_mem, const size_t*, const size_t*, const size_t*, cl_uint, const cl_event*,          \
     cl_event*))                                                                                                       \
  F(clEnqueueCopyImageToBuffer, cl_int,                                                                                \
    (cl_command_queue, cl_mem, cl_mem, const size_t*, const size_t*, size_t, cl_uint, const cl_event*, cl_event*))     \
  F(clEnqueueCopyBufferToImage, cl_int,                                                                                \
    (cl_command_queue, cl_mem, cl_mem, size_t, const size_t*, const size_t*, cl_uint, const cl_event*, cl_event*))     \
  F(clEnqueueNDRangeKernel, cl_int,                                                                                    \
    (cl_command_queue, cl_kernel, cl_uint, const size_t*, const size_t*, const size_t*, cl_uint, const cl_event*,      \
     cl_event*))                                                                                                       \
  F(clFinish, cl_int, (cl_command_queue))                                                                              \
  F(clRetainEvent, cl_int, (cl_event))                                                                                 \
  F(clReleaseEvent, cl_int, (cl_event))                                                                                \
  F(clGetEventProfilingInfo, cl_int, (cl_event, cl_info, size_t, void*, size_t*))                                      \
  F(clCreateProgramWithSource, cl_program, (cl_context, cl_uint, const char**, const size_t*, cl_int*))                \
  F(clCreateProgramWithBinary, cl_program,                                                                             \
    (cl_context, cl_uint, const cl_device_id*, const size_t*, const unsigned char**, cl_int*, cl_int*))                \
  F(clBuildProgram, cl_int,                                                                                            \
    (cl_program, cl_uint, const cl_device_id*, const char*, void (*)(cl_program, void*), void*))                       \
  F(clGetProgramBuildInfo, cl_int, (cl_program, cl_device_id, cl_info, size_t, void*, size_t*))                        \
  F(clGetProgramInfo, cl_int, (cl_program, cl_info, size_t, void*, size_t*))                                           \
  F(clReleaseProgram, cl_int, (cl_program))                                                                            \
  F(clCreateKernel, cl_kernel, (cl_program, const char*, cl_int*))                                                     \
  F(clGetKernelInfo, cl_int, (cl_kernel, cl_info, size_t, void*, size_t*))                                             \
  F(clReleaseKernel, cl_int, (cl_kernel))                                                                              \
  F(clSetKernelArg, cl_int, (cl_kernel, cl_uint, size_t, const void*))                                                 \
  F(clGetKernelWorkGroupInfo, cl_int, (cl_kernel, cl_device_id, cl_info, size_t, void*, size_t*))

/// OpenCL's functions, found in the library.
struct Api {
#define TVMAKE_OPENCL_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
  TVMAKE_OPENCL_FUNCTIONS(TVMAKE_OPENCL_MEMBER)
#undef TVMAKE_OPENCL_MEMBER
};

/// The functions of this machine's OpenCL library, opened now if need be.
/// Throws RuntimeError when there is none, or when OpenCL was used before this process was forked.
const Api& GetApi();

/// Whether there is a library to open; opens it.
bool HasLibrary();

/// A function of the same library that is not OpenCL's own; null where it has none of that name.
void* FindFunction(const char* name);

/// Whether this process was forked from one that had used OpenCL: drivers do not survive that, nothing may be called.
bool IsForked();

}  // namespace opencl
}  // namespace tvmake
