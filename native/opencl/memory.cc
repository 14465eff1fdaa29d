#include "memory.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <memory>

#include "device.h"

namespace tvmake {
namespace opencl {

bool ImageShape::operator==(const ImageShape& other) const {
  return width == other.width && height == other.height && layers == other.layers && channel_type == other.channel_type;
}

Memory* Memory::Buffer(Device* device, size_t bytes) {
  std::unique_ptr<Memory> memory(LateBuffer(device, bytes));
  memory->MakeBuffer();
  return memory.release();
}

Memory* Memory::LateBuffer(Device* device, size_t bytes) { return new Memory(device, bytes); }

Memory* Memory::Image(Device* device, const ImageShape& shape) {
  const DeviceFacts& facts = device->facts();
  if (!facts.has_images) TVM_FFI_THROW(RuntimeError) << "OpenCL: '" << facts.name << "' has no images";
  if (shape.width > facts.image_width || shape.height > facts.image_height || shape.layers > facts.image_layers) {
    TVM_FFI_THROW(RuntimeError) << "OpenCL: a texture of width " << shape.width << ", height " << shape.height
                                << " and " << shape.layers << " layers does not fit '" << facts.name
                                << "', which takes " << facts.image_width << ", " << facts.image_height << " and "
                                << facts.image_layers;
  }
  std::unique_ptr<Memory> memory(new Memory(device, shape.bytes()));
  memory->is_image_ = true;
  memory->shape_ = shape;
  const cl_image_format format = {CL_RGBA, shape.channel_type};
  cl_image_desc description = {};
  description.image_type = CL_MEM_OBJECT_IMAGE2D_ARRAY;
  description.image_width = std::max<size_t>(shape.width, 1);
  description.image_height = std::max<size_t>(shape.height, 1);
  description.image_depth = 1;
  description.image_array_size = std::max<size_t>(shape.layers, 1);
  cl_context context = device->context();
  memory->handle_ = device->Allocate(shape.bytes(), "a texture", [&](cl_int* code) {
    return GetApi().clCreateImage(context, CL_MEM_READ_WRITE, &format, &description, nullptr, code);
  });
  return memory.release();
}

Memory::~Memory() {
  if (handle_ == nullptr || IsForked()) return;  // in a fork the driver's state belongs to the parent
  if (region_.slab != nullptr) {
    device_->slabs().Give(region_);
  } else {
    GetApi().clReleaseMemObject(handle_);
  }
}

cl_mem Memory::handle() {
  if (handle_ == nullptr) MakeBuffer();
  return handle_;
}

void Memory::MakeBuffer() {
  if (Slabs::IsFor(bytes_)) {
    region_ = device_->slabs().Take(bytes_);
    handle_ = region_.handle;
    return;
  }
  cl_context context = device_->context();
  handle_ = device_->Allocate(bytes_, "a buffer", [&](cl_int* code) {
    return GetApi().clCreateBuffer(context, CL_MEM_READ_WRITE, std::max<size_t>(bytes_, 1), nullptr, code);
  });
}

}  // namespace opencl
}  // namespace tvmake
