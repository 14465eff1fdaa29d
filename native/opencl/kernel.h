// Launch a kernel with the arguments that TVM's host code passes.
#pragma once

#include <runtime/thread_storage_scope.h>
#include <tvm/ffi/function.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device.h"
#include "memory.h"
#include "program.h"

namespace tvmake {
namespace opencl {

/// One kernel of a module. It is compiled for a device when it is first launched there.
///
/// Arguments are those of the kernel (memory, then numbers) followed by the sizes that the launch tags name. It runs on
/// the device that its memory is on; one without memory on the device that was set last in this thread.
class Kernel {
 public:
  Kernel(std::string name, std::string source, const tvm::runtime::FunctionInfo& info);
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  void Launch(tvm::ffi::PackedArgs args);

 private:
  struct Compiled {
    std::mutex mutex;  // arguments belong to the kernel object until it is enqueued
    BuiltKernel built;
  };

  Compiled& For(Device* device);
  Device* DeviceOf(tvm::ffi::PackedArgs args) const;
  Memory* MemoryOf(tvm::ffi::AnyView argument) const;
  void SetArgument(cl_kernel kernel, int index, tvm::ffi::AnyView argument) const;
  void RefuseWrongKind(int index, const Memory* memory) const;
  void RefuseLocalMemory(Device* device, cl_kernel kernel) const;
  [[noreturn]] void FailLaunch(cl_int code, Device* device, cl_kernel kernel, const size_t* global,
                               const size_t* local) const;

  std::string name_;
  std::string source_;
  tvm::runtime::FunctionInfo info_;
  tvm::runtime::LaunchParamConfig launch_;
  int launch_sizes_ = 0;
  std::vector<bool> is_image_;  // by parameter; empty when unknown
  std::mutex mutex_;
  std::map<Device*, std::unique_ptr<Compiled>> compiled_;
};

/// The device that `SetDevice` was last called with in this thread; the first one before that.
int CurrentDevice();
void SetCurrentDevice(int index);

}  // namespace opencl
}  // namespace tvmake
