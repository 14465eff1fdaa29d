// Libraries that add to TVM's runtime.
#ifndef TVMAKE_SERVER_LIBRARIES_H_
#define TVMAKE_SERVER_LIBRARIES_H_

#include <string>
#include <vector>

namespace tvmake {

// Load what lies beside this program, where it does: TVM's contributed functions (filling tensors with random numbers
// for tuning). Before any session is forked.
void LoadContributed();

// Load devices and further libraries, in a session: drivers may start threads, which do not survive a fork.
//
// Throws std::runtime_error if one of `asked` cannot be loaded.
void LoadLibraries(const std::vector<std::string>& paths);

}  // namespace tvmake

#endif  // TVMAKE_SERVER_LIBRARIES_H_
