#include "copy.h"

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>

#include <vector>

#include "device.h"
#include "memory.h"

namespace tvmake {
namespace opencl {
namespace {

constexpr size_t kOrigin[3] = {0, 0, 0};

struct Region {
  explicit Region(const ImageShape& shape) : size{shape.width, shape.height, shape.layers} {}
  size_t size[3];
};

Memory* MemoryOf(const DLTensor& tensor) {
  return tensor.device.device_type == kDLOpenCL ? static_cast<Memory*>(tensor.data) : nullptr;
}

char* HostOf(const DLTensor& tensor) { return static_cast<char*>(tensor.data) + tensor.byte_offset; }

void Write(const char* from, Memory* to, size_t offset, size_t bytes) {
  cl_mem target = to->handle();
  const ImageShape* image = to->image();
  to->device().queue().Submit("cannot copy to the device", [&](cl_command_queue queue, cl_event* event) {
    if (image == nullptr) {
      return GetApi().clEnqueueWriteBuffer(queue, target, CL_TRUE, offset, bytes, from, 0, nullptr, event);
    }
    return GetApi().clEnqueueWriteImage(queue, target, CL_TRUE, kOrigin, Region(*image).size, 0, 0, from, 0, nullptr,
                                        event);
  });
}

void Read(Memory* from, size_t offset, char* to, size_t bytes) {
  cl_mem source = from->handle();
  const ImageShape* image = from->image();
  from->device().queue().Submit("cannot copy from the device", [&](cl_command_queue queue, cl_event* event) {
    if (image == nullptr) {
      return GetApi().clEnqueueReadBuffer(queue, source, CL_TRUE, offset, bytes, to, 0, nullptr, event);
    }
    return GetApi().clEnqueueReadImage(queue, source, CL_TRUE, kOrigin, Region(*image).size, 0, 0, to, 0, nullptr,
                                       event);
  });
}

void CopyOnDevice(Memory* from, size_t from_offset, Memory* to, size_t to_offset, size_t bytes) {
  cl_mem source = from->handle();
  cl_mem target = to->handle();
  const ImageShape* source_image = from->image();
  const ImageShape* target_image = to->image();
  if (source_image != nullptr && target_image != nullptr && !(*source_image == *target_image)) {
    TVM_FFI_THROW(ValueError) << "OpenCL: cannot copy between textures of different shapes";
  }
  from->device().queue().Submit("cannot copy on the device", [&](cl_command_queue queue, cl_event* event) {
    const Api& api = GetApi();
    if (source_image == nullptr && target_image == nullptr) {
      return api.clEnqueueCopyBuffer(queue, source, target, from_offset, to_offset, bytes, 0, nullptr, event);
    }
    if (source_image == nullptr) {
      return api.clEnqueueCopyBufferToImage(queue, source, target, from_offset, kOrigin, Region(*target_image).size, 0,
                                            nullptr, event);
    }
    if (target_image == nullptr) {
      return api.clEnqueueCopyImageToBuffer(queue, source, target, kOrigin, Region(*source_image).size, to_offset, 0,
                                            nullptr, event);
    }
    return api.clEnqueueCopyImage(queue, source, target, kOrigin, kOrigin, Region(*source_image).size, 0, nullptr,
                                  event);
  });
}

// PoCL 3.1 crashes when it copies between an image and a part of a buffer. Parts are small.
bool IsBestThroughHost(const Memory& a, const Memory& b) {
  return (a.is_part() && b.image() != nullptr) || (a.image() != nullptr && b.is_part());
}

void RefuseUncopyable(const DLTensor& tensor, const Memory* memory, size_t bytes) {
  if (!tvm::ffi::IsContiguous(tensor)) {
    TVM_FFI_THROW(ValueError) << "OpenCL: cannot copy a tensor that is not contiguous";
  }
  if (memory == nullptr) return;
  if (memory->image() != nullptr && (tensor.byte_offset != 0 || memory->bytes() != bytes)) {
    TVM_FFI_THROW(ValueError) << "OpenCL: a texture can only be copied as a whole";
  }
  if (tensor.byte_offset + bytes > memory->bytes()) {
    TVM_FFI_THROW(ValueError) << "OpenCL: " << bytes << " bytes at offset " << tensor.byte_offset
                              << " are more than the " << memory->bytes() << " that are there";
  }
}

}  // namespace

void CopyTensor(const DLTensor& from, const DLTensor& to) {
  size_t bytes = tvm::ffi::GetDataSize(from);
  if (bytes != tvm::ffi::GetDataSize(to)) {
    TVM_FFI_THROW(ValueError) << "OpenCL: cannot copy " << bytes << " bytes to a tensor of "
                              << tvm::ffi::GetDataSize(to);
  }
  Memory* source = MemoryOf(from);
  Memory* target = MemoryOf(to);
  RefuseUncopyable(from, source, bytes);
  RefuseUncopyable(to, target, bytes);
  if (bytes == 0) return;
  if (source == nullptr) {
    Write(HostOf(from), target, to.byte_offset, bytes);
  } else if (target == nullptr) {
    Read(source, from.byte_offset, HostOf(to), bytes);
  } else if (&source->device() == &target->device() && !IsBestThroughHost(*source, *target)) {
    CopyOnDevice(source, from.byte_offset, target, to.byte_offset, bytes);
  } else {
    std::vector<char> between(bytes);  // also between devices: each has a context of its own
    Read(source, from.byte_offset, between.data(), bytes);
    Write(between.data(), target, to.byte_offset, bytes);
  }
}

}  // namespace opencl
}  // namespace tvmake
