#include "device.h"

#include <dlfcn.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

#include <map>

#include "errors.h"

namespace tvmake {
namespace {

using tvm::ffi::Any;
using tvm::ffi::Function;

const std::map<std::string, DLDeviceType>& Kinds() {
  static const std::map<std::string, DLDeviceType> kinds = {
      {"cpu", kDLCPU},     {"cuda", kDLCUDA}, {"opencl", kDLOpenCL},  {"vulkan", kDLVulkan},
      {"metal", kDLMetal}, {"rocm", kDLROCM}, {"hexagon", kDLHexagon}};
  return kinds;
}

Any Attribute(DLDevice device, int attribute) {
  return Function::GetGlobalRequired("runtime.GetDeviceAttr")(static_cast<int>(device.device_type), device.device_id,
                                                              attribute);
}

bool Exists(DLDevice device) {
  // Some devices answer with a number, some with a bool.
  const auto answer = Attribute(device, kDeviceExists).try_cast<int64_t>();
  return answer && *answer != 0;
}

}  // namespace

void LoadLibrary(const std::string& path) {
  if (!dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    FailDevice(path, std::string("cannot be loaded (") + dlerror() + ")");
  }
}

DLDevice OpenDevice(const std::string& kind) {
  const auto found = Kinds().find(kind);
  if (found == Kinds().end()) {
    std::string known;
    for (const auto& [name, type] : Kinds()) known += (known.empty() ? "" : ", ") + name;
    RefuseInput("--device", "no such kind of device: '" + kind + "'", "known: " + known);
  }
  const DLDevice device{found->second, 0};
  // It may be built into the runtime, so a missing library is not an error yet.
  std::string reason;
  for (const char* prefix : {"libtvmake_", "libtvm_runtime_"}) {
    if (Exists(device) || dlopen((prefix + kind + ".so").c_str(), RTLD_NOW | RTLD_LOCAL)) continue;
    const std::string why = dlerror();
    if (why.find("No such file") == std::string::npos) reason = why;
  }
  if (!Exists(device)) {
    FailDevice("device '" + kind + "'", "there is none" + (reason.empty() ? "" : " (" + reason + ")"),
               "it needs its driver, and a runtime library for it beside this program");
  }
  return device;
}

std::string DeviceFact(DLDevice device, int attribute) {
  const Any answer = Attribute(device, attribute);
  if (const auto text = answer.as<tvm::ffi::String>()) return *text;
  if (const auto number = answer.as<int64_t>()) return std::to_string(*number);
  return "";
}

std::string ClmlSummary() {
  const auto summary = tvm::ffi::Function::GetGlobal("tvmake.clml.summary");
  return summary.has_value() ? std::string((*summary)().cast<tvm::ffi::String>()) : std::string();
}

}  // namespace tvmake
