#include "api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <tvm/ffi/error.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <vector>

namespace tvmake {
namespace opencl {
namespace {

std::atomic<bool> is_forked{false};

struct Library {
  void* handle = nullptr;
  Api api;
  std::string missing;  // why it cannot be used; empty when it can
};

// OpenCL libraries: the loader's name on Linux, then the drivers' paths on Android.
std::vector<std::string> LibraryPaths() {
  if (const char* named = std::getenv("TVMAKE_OPENCL_LIBRARY")) return {named};
  return {"libOpenCL.so.1",
          "libOpenCL.so",
          "/vendor/lib64/libOpenCL.so",
          "/system/vendor/lib64/libOpenCL.so",
          "/system/lib64/libOpenCL.so",
          "/vendor/lib64/egl/libGLES_mali.so",
          "/system/vendor/lib64/libPVROCL.so"};
}

Library Open() {
  Library library;
  void*& handle = library.handle;
  std::string tried;
  for (const std::string& path : LibraryPaths()) {
    handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) break;
    tried += (tried.empty() ? "" : ", ") + path;
  }
  if (handle == nullptr) {
    library.missing = "no OpenCL library on this machine (tried " + tried +
                      "); install a driver and its loader, or name the library in TVMAKE_OPENCL_LIBRARY";
    return library;
  }
#define TVMAKE_OPENCL_FIND(name, result, parameters)                               \
  library.api.name = reinterpret_cast<result(*) parameters>(dlsym(handle, #name)); \
  if (library.api.name == nullptr) library.missing = "the OpenCL library lacks " #name;
  TVMAKE_OPENCL_FUNCTIONS(TVMAKE_OPENCL_FIND)
#undef TVMAKE_OPENCL_FIND
  if (library.missing.empty()) {
    // From here on a child of fork() must not touch what the driver keeps in memory and in threads.
    pthread_atfork(nullptr, nullptr, [] { is_forked = true; });
  }
  return library;
}

const Library& Opened() {
  static const Library* library = new Library(Open());  // never freed: drivers keep threads until the process ends
  return *library;
}

}  // namespace

const Api& GetApi() {
  const Library& library = Opened();
  if (!library.missing.empty()) TVM_FFI_THROW(RuntimeError) << "OpenCL: " << library.missing;
  if (is_forked) {
    TVM_FFI_THROW(RuntimeError) << "OpenCL: this process was forked from one that had used OpenCL, which drivers do "
                                   "not survive; fork before the first use, or start a new process";
  }
  return library.api;
}

void* FindFunction(const char* name) {
  void* handle = Opened().handle;
  return handle == nullptr ? nullptr : dlsym(handle, name);
}

bool HasLibrary() { return Opened().missing.empty(); }

bool IsForked() { return is_forked; }

}  // namespace opencl
}  // namespace tvmake
