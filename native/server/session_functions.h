// What clients call by name beside TVM's own functions: files of the session, and loading them.
#ifndef TVMAKE_SERVER_SESSION_FUNCTIONS_H_
#define TVMAKE_SERVER_SESSION_FUNCTIONS_H_

#include <string>

#include "upload_cache.h"

namespace tvmake {

// Register them, in place of TVM's: uploads stay inside `directory`; any file may be read. And for tvmake's clients:
//
// tvmake.rpc.version() -> string: the version of TVM that this server is made for, as its wheel spells it.
// tvmake.rpc.store(file, tensor, offset): write a tensor's bytes to the end of a file, to a new one for offset 0.
// Tensors travel faster than TVM's uploads (tvmake/device/rpc/tensors.py).
// tvmake.rpc.digest(file) -> string: what arrived, as its size in bytes, a space, and its sha256 as hex.
// tvmake.rpc.take(file, sha256) -> bool: have a file of an earlier session here, without sending it.
// tvmake.rpc.keep(file, sha256) -> string: the facts of the file as `digest` gives them; kept for later sessions if it
// is that.
void RegisterSessionFunctions(const std::string& directory, const UploadCache& cache);

}  // namespace tvmake

#endif  // TVMAKE_SERVER_SESSION_FUNCTIONS_H_
