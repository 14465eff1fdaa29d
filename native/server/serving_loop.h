// Serving one client's connection: TVM's protocol, with copies of tensors done here.
#ifndef TVMAKE_SERVER_SERVING_LOOP_H_
#define TVMAKE_SERVER_SERVING_LOOP_H_

namespace tvmake {

// Answer a client until it ends the session or closes its end.
//
// It does what TVM's `rpc.ServerLoop` does, and gives everything to TVM but copies to and from tensors: TVM moves
// those byte by byte, each by a call of its own.
//
// fd: blocking.
// Throws std::exception if the connection breaks in the middle, or the client does not keep to the protocol.
void ServeClient(int fd);

}  // namespace tvmake

#endif  // TVMAKE_SERVER_SERVING_LOOP_H_
