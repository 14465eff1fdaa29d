// What tvmake's clients call by name to use tensors that are on the device already.
#ifndef TVMAKE_SERVER_TENSOR_FUNCTIONS_H_
#define TVMAKE_SERVER_TENSOR_FUNCTIONS_H_

namespace tvmake {

// Register them:
//
// tvmake.rpc.address(tensor) -> int: where its memory is here; for clients that write packets themselves.
// tvmake.rpc.parameters(file, device type, device number, names...) -> list of tensors: those of a parameter file of
// the session, on a device.
// tvmake.rpc.set_input(vm, name, tensors or lists of them...): as the virtual machine's set_input, which copies every
// tensor that comes over RPC, weights too. This one keeps the tensors themselves: the client has to, as well.
// tvmake.rpc.get_output(vm, name, index) -> tensor: as the virtual machine's get_output, for a tensor that the client keeps
// longer than those of set_input: it is copied if it is in the memory of one of them.
void RegisterTensorFunctions();

}  // namespace tvmake

#endif  // TVMAKE_SERVER_TENSOR_FUNCTIONS_H_
