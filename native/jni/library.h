// The C interface, loaded when it is first needed.
#ifndef TVMAKE_LIBRARY_H_
#define TVMAKE_LIBRARY_H_

#include <string>

#include "tvmake/package_c.h"

namespace tvmake {

// The functions of tvmake/package_c.h.
struct Library {
  decltype(&tvmake_package_load) load;
  decltype(&tvmake_package_free) free;
  decltype(&tvmake_package_inputs) inputs;
  decltype(&tvmake_package_outputs) outputs;
  decltype(&tvmake_package_states) states;
  decltype(&tvmake_package_input) input;
  decltype(&tvmake_package_output) output;
  decltype(&tvmake_package_state) state;
  decltype(&tvmake_package_new_session) new_session;
  decltype(&tvmake_package_functions) functions;
  decltype(&tvmake_package_function_name) function_name;
  decltype(&tvmake_package_function) function;
  decltype(&tvmake_package_set_input) set_input;
  decltype(&tvmake_package_run) run;
  decltype(&tvmake_package_value) value;
  decltype(&tvmake_package_reset) reset;
  decltype(&tvmake_package_snapshot) snapshot;
  decltype(&tvmake_package_restore) restore;
  decltype(&tvmake_last_error) last_error;
};

// Load libtvmake_package.so from beside this library, and TVM's runtime with it, in a way that a virtual machine for
// Java survives. Returns why it cannot be loaded, or an empty text; the second time it does nothing.
std::string LoadLibraryOnce(Library* library);

}  // namespace tvmake

#endif  // TVMAKE_LIBRARY_H_
