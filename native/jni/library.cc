#include "library.h"

#include <dlfcn.h>

#include "signal_handlers.h"

namespace tvmake {
namespace {

// It takes a signal handler when it is loaded. By itself that lasts a millisecond, in which no other thread should need
// the virtual machine's. Without one, it is part of the other library.
constexpr char kFfi[] = "libtvm_ffi.so";
constexpr char kInterface[] = "libtvmake_package.so";

void* Open(const char* name) {
  const SignalHandlersKept handlers;
  return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

template <typename Function>
bool Find(void* file, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(file, name));
  return *function != nullptr;
}

}  // namespace

std::string LoadLibraryOnce(Library* library) {
  if (library->load) return "";
  Open(kFfi);
  void* file = Open(kInterface);
  if (!file) return dlerror();
  Library found{};
  const bool is_whole = Find(file, "tvmake_package_load", &found.load) && Find(file, "tvmake_package_free", &found.free) &&
                        Find(file, "tvmake_package_inputs", &found.inputs) &&
                        Find(file, "tvmake_package_outputs", &found.outputs) &&
                        Find(file, "tvmake_package_states", &found.states) &&
                        Find(file, "tvmake_package_input", &found.input) &&
                        Find(file, "tvmake_package_output", &found.output) &&
                        Find(file, "tvmake_package_state", &found.state) &&
                        Find(file, "tvmake_package_new_session", &found.new_session) &&
                        Find(file, "tvmake_package_functions", &found.functions) &&
                        Find(file, "tvmake_package_function_name", &found.function_name) &&
                        Find(file, "tvmake_package_function", &found.function) &&
                        Find(file, "tvmake_package_set_input", &found.set_input) &&
                        Find(file, "tvmake_package_run", &found.run) &&
                        Find(file, "tvmake_package_value", &found.value) &&
                        Find(file, "tvmake_package_reset", &found.reset) &&
                        Find(file, "tvmake_package_snapshot", &found.snapshot) &&
                        Find(file, "tvmake_package_restore", &found.restore) &&
                        Find(file, "tvmake_last_error", &found.last_error);
  if (!is_whole) return std::string(kInterface) + " has another version of tvmake";
  *library = found;
  return "";
}

}  // namespace tvmake
