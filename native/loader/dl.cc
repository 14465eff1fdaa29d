// <dlfcn.h> for programs without a dynamic loader: what TVM and these programs open libraries with.
//
// A C library for static programs has these functions too, and they only fail; the linker takes those that are here.
#include <dlfcn.h>

#include <string>

#include "image.h"

namespace {

thread_local std::string last_error;
thread_local bool has_error = false;

void Fail(const std::string& problem) {
  last_error = problem;
  has_error = true;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void* dlopen(const char* path, int) {
  try {
    if (!path) throw tvmake::LoadError("this program has no symbols to look up");
    return new tvmake::Image(path);
  } catch (const std::exception& error) {
    Fail(std::string(path ? path : "dlopen") + ": " + error.what());
    return nullptr;
  }
}

__attribute__((visibility("default"))) void* dlsym(void* handle, const char* name) {
  void* found = handle ? static_cast<tvmake::Image*>(handle)->Find(name) : nullptr;
  if (!found) Fail(std::string("undefined symbol: ") + name);
  return found;
}

__attribute__((visibility("default"))) int dlclose(void* handle) {
  delete static_cast<tvmake::Image*>(handle);
  return 0;
}

// The last problem of this thread; null when there was none since it was asked the last time.
__attribute__((visibility("default"))) char* dlerror() {
  if (!has_error) return nullptr;
  has_error = false;
  return last_error.data();
}

}  // extern "C"
