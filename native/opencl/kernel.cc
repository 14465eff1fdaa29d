#include "kernel.h"

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>

#include <sstream>
#include <utility>

#include "scalar.h"
#include "signature.h"

namespace tvmake {
namespace opencl {
namespace {

thread_local int current_device = 0;

std::string Sizes(const size_t* sizes) {
  std::ostringstream text;
  text << sizes[0] << "×" << sizes[1] << "×" << sizes[2];
  return text.str();
}

// 0 when the driver does not tell.
cl_ulong LocalBytes(Device* device, cl_kernel kernel) {
  cl_ulong bytes = 0;
  GetApi().clGetKernelWorkGroupInfo(kernel, device->id(), CL_KERNEL_LOCAL_MEM_SIZE, sizeof(bytes), &bytes, nullptr);
  return bytes;
}

}  // namespace

int CurrentDevice() { return current_device; }

void SetCurrentDevice(int index) { current_device = index; }

Kernel::Kernel(std::string name, std::string source, const tvm::runtime::FunctionInfo& info)
    : name_(std::move(name)), source_(std::move(source)), info_(info) {
  launch_.Init(info->arg_types.size(), info->launch_param_tags);
  for (const auto& tag : info->launch_param_tags) {
    // blockIdx.x, threadIdx.y, …; other tags are switches for other kinds of devices and come without a number.
    if (std::string(tag).find("Idx.") != std::string::npos) ++launch_sizes_;
  }
  is_image_ = ImageParameters(source_, name_);
  if (is_image_.size() != info->arg_types.size()) is_image_.clear();
}

Kernel::~Kernel() {
  if (IsForked()) return;
  for (auto& [device, compiled] : compiled_) {
    GetApi().clReleaseKernel(compiled->built.kernel);
  }
}

void Kernel::Launch(tvm::ffi::PackedArgs args) {
  const int count = static_cast<int>(info_->arg_types.size());
  if (args.size() < count + launch_sizes_) {
    TVM_FFI_THROW(TypeError) << "OpenCL: kernel '" << name_ << "' takes " << count << " arguments and " << launch_sizes_
                             << " launch sizes, and got " << args.size() << " in all";
  }
  const tvm::runtime::ThreadWorkLoad work = launch_.Extract(args);
  size_t global[3];
  size_t local[3];
  for (size_t i = 0; i < 3; ++i) {
    local[i] = work.block_dim(i);
    global[i] = work.grid_dim(i) * local[i];
  }
  Device* device = DeviceOf(args);
  Compiled& compiled = For(device);
  std::lock_guard<std::mutex> lock(compiled.mutex);
  cl_kernel kernel = compiled.built.kernel;
  for (int i = 0; i < count; ++i) SetArgument(kernel, i, args[i]);
  const cl_uint dimensions = static_cast<cl_uint>(launch_.work_dim());
  cl_int code = device->queue().TrySubmit([&](cl_command_queue queue, cl_event* event) {
    return GetApi().clEnqueueNDRangeKernel(queue, kernel, dimensions, nullptr, global, local, 0, nullptr, event);
  });
  if (code != CL_SUCCESS) FailLaunch(code, device, kernel, global, local);
  if (!compiled.built.unstored_key.empty()) {
    device->queue().Finish();
    StoreKernel(compiled.built);
    compiled.built.unstored_key.clear();
  }
}

Kernel::Compiled& Kernel::For(Device* device) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = compiled_.find(device);
  if (found == compiled_.end()) {
    auto fresh = std::make_unique<Compiled>();
    fresh->built = BuildKernel(device, name_, source_);
    RefuseLocalMemory(device, fresh->built.kernel);
    found = compiled_.emplace(device, std::move(fresh)).first;
  }
  return *found->second;
}

// Drivers should refuse to launch it; PoCL 3.1 ends the process.
void Kernel::RefuseLocalMemory(Device* device, cl_kernel kernel) const {
  const DeviceFacts& facts = device->facts();
  const cl_ulong used = LocalBytes(device, kernel);
  if (used <= facts.local_bytes) return;
  GetApi().clReleaseKernel(kernel);
  Fail(CL_OUT_OF_RESOURCES, "kernel '" + name_ + "' needs " + Bytes(used) + " of local memory, and '" + facts.name +
                                "' has " + Bytes(facts.local_bytes));
}

Memory* Kernel::MemoryOf(tvm::ffi::AnyView argument) const {
  // Host code passes the data pointer; a caller from Python passes the tensor.
  if (auto tensor = argument.try_cast<DLTensor*>()) {
    if ((*tensor)->device.device_type != kDLOpenCL || (*tensor)->byte_offset != 0) {
      TVM_FFI_THROW(ValueError) << "OpenCL: kernel '" << name_ << "' takes whole tensors on an OpenCL device only";
    }
    return static_cast<Memory*>((*tensor)->data);
  }
  return static_cast<Memory*>(argument.cast<void*>());
}

Device* Kernel::DeviceOf(tvm::ffi::PackedArgs args) const {
  Device* found = nullptr;
  for (size_t i = 0; i < info_->arg_types.size(); ++i) {
    if (info_->arg_types[i].code != kDLOpaqueHandle) continue;
    Memory* memory = MemoryOf(args[static_cast<int>(i)]);
    if (memory == nullptr) continue;
    if (found != nullptr && found != &memory->device()) {
      TVM_FFI_THROW(ValueError) << "OpenCL: kernel '" << name_ << "' got memory of two devices, '"
                                << found->facts().name << "' and '" << memory->device().facts().name << "'";
    }
    found = &memory->device();
  }
  return found != nullptr ? found : &GetDevice(CurrentDevice());
}

void Kernel::SetArgument(cl_kernel kernel, int index, tvm::ffi::AnyView argument) const {
  const DLDataType type = info_->arg_types[index];
  cl_int code = CL_SUCCESS;
  std::string what;
  if (type.code == kDLOpaqueHandle) {
    Memory* memory = MemoryOf(argument);
    RefuseWrongKind(index, memory);
    cl_mem handle = memory == nullptr ? nullptr : memory->handle();
    code = GetApi().clSetKernelArg(kernel, static_cast<cl_uint>(index), sizeof(handle), &handle);
    what = memory == nullptr ? "nothing" : memory->image() != nullptr ? "a texture" : "a buffer";
  } else {
    const Scalar scalar = ToScalar(argument, type);
    code = GetApi().clSetKernelArg(kernel, static_cast<cl_uint>(index), scalar.bytes, scalar.data);
    what = tvm::ffi::DLDataTypeToString(type);
  }
  if (code != CL_SUCCESS) {
    Fail(code, "kernel '" + name_ + "' does not take " + what + " as argument " + std::to_string(index));
  }
}

void Kernel::RefuseWrongKind(int index, const Memory* memory) const {
  if (memory == nullptr || is_image_.empty()) return;
  const bool is_image = memory->image() != nullptr;
  if (is_image == is_image_[index]) return;
  TVM_FFI_THROW(ValueError) << "OpenCL: kernel '" << name_ << "' takes a " << (is_image ? "buffer" : "texture")
                            << " as argument " << index << ", and got a " << (is_image ? "texture" : "buffer");
}

void Kernel::FailLaunch(cl_int code, Device* device, cl_kernel kernel, const size_t* global,
                        const size_t* local) const {
  const DeviceFacts& facts = device->facts();
  size_t most = 0;
  GetApi().clGetKernelWorkGroupInfo(kernel, device->id(), CL_KERNEL_WORK_GROUP_SIZE, sizeof(most), &most, nullptr);
  std::ostringstream what;
  what << "cannot launch kernel '" << name_ << "' with " << Sizes(global) << " work items in groups of " << Sizes(local)
       << " (" << local[0] * local[1] * local[2] << ") on '" << facts.name << "', which takes groups of up to ";
  if (most != 0) what << most << " for this kernel, ";
  what << facts.max_group << " (" << Sizes(facts.max_items) << ") at all; it has " << Bytes(facts.local_bytes)
       << " of local memory, of which this kernel uses " << Bytes(LocalBytes(device, kernel));
  Fail(code, what.str());
}

}  // namespace opencl
}  // namespace tvmake
