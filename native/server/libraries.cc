#include "libraries.h"

#include <dlfcn.h>
#include <tvm/ffi/function.h>

#include <stdexcept>

#include "log.h"

namespace tvmake {
namespace {

constexpr char kContributed[] = "libtvm_runtime_extra.so";
constexpr char kFill[] = "tvm.contrib.random.random_fill_for_measure";  // one of the functions in it
constexpr const char* kDevices[] = {"libtvmake_opencl.so", "libtvm_runtime_opencl.so", "libtvm_runtime_cuda.so",
                                    "libtvm_runtime_vulkan.so"};

bool Load(const std::string& path) { return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr; }

}  // namespace

void LoadContributed() {
  if (tvm::ffi::Function::GetGlobal(kFill)) return;  // they are built into this program
  if (!Load(kContributed)) Log(std::string("without TVM's contributed functions (") + dlerror() + ")");
}

void LoadLibraries(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (!Load(path)) throw std::runtime_error(path + ": cannot be loaded (" + dlerror() + ")");
  }
  for (const char* name : kDevices) Load(name);
}

}  // namespace tvmake
