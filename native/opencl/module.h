// The module of OpenCL kernels that TVM's code generator makes, and that packages carry.
#pragma once

#include <runtime/metadata.h>
#include <tvm/ffi/extra/module.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "kernel.h"

namespace tvmake {
namespace opencl {

using FunctionInfos = tvm::ffi::Map<tvm::ffi::String, tvm::runtime::FunctionInfo>;

/// Source in OpenCL C with a `// Function: <name>` line before each kernel. Kernels are compiled one by one, when they
/// are first launched.
class OpenCLModule : public tvm::ffi::ModuleObj {
 public:
  OpenCLModule(std::string code, std::string format, FunctionInfos infos);

  const char* kind() const final { return "opencl"; }
  int GetPropertyMask() const final;
  tvm::ffi::Optional<tvm::ffi::Function> GetFunction(const tvm::ffi::String& name) final;
  tvm::ffi::Bytes SaveToBytes() const final;
  tvm::ffi::String InspectSource(const tvm::ffi::String& format) const final;

  /// What `SaveToBytes` wrote, here or in a TVM without an OpenCL runtime. Throws ValueError when it is damaged.
  static tvm::ffi::Module LoadFromBytes(const tvm::ffi::Bytes& bytes);

 private:
  std::string code_;
  std::string format_;
  FunctionInfos infos_;
  std::map<std::string, std::string> sources_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Kernel>> kernels_;
};

/// Each kernel's source by its name. What stands before the first kernel is put before each.
std::map<std::string, std::string> SplitKernels(const std::string& code);

}  // namespace opencl
}  // namespace tvmake
