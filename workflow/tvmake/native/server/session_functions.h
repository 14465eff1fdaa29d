// What clients call by name beside TVM's own functions: files of the session, and loading them.
#ifndef TVMAKE_SERVER_SESSION_FUNCTIONS_H_
#define TVMAKE_SERVER_SESSION_FUNCTIONS_H_

#include <string>

namespace tvmake {

// Register them, in place of TVM's: uploads stay inside `directory`; any file may be read.
void RegisterSessionFunctions(const std::string& directory);

}  // namespace tvmake

#endif  // TVMAKE_SERVER_SESSION_FUNCTIONS_H_
