// Copies between the host and OpenCL devices, and between devices.
#pragma once

#include <dlpack/dlpack.h>

namespace tvmake {
namespace opencl {

/// Copies a whole contiguous tensor to another one of the same number of bytes; at least one is on an OpenCL device,
/// the other there or in the host's memory. Either may be a texture, which holds its elements in the tensor's order.
/// Copies from and to the host are done when it returns. Throws ValueError for tensors that cannot be copied.
void CopyTensor(const DLTensor& from, const DLTensor& to);

}  // namespace opencl
}  // namespace tvmake
