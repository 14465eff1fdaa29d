#include "transfer.h"

#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/dtype.h>

#include "virtual_machine.h"

namespace tvmake {

namespace ffi = tvm::ffi;

Transfer::Transfer(DLDevice device)
    : device_(device),
      allocate_(ffi::Function::GetGlobalRequired("runtime.TVMTensorAllocWithScope")),
      send_(ffi::Function::GetGlobalRequired("runtime.TVMTensorCopyFromBytes")),
      fetch_(ffi::Function::GetGlobalRequired("runtime.TVMTensorCopyToBytes")) {}

ffi::Tensor Transfer::Send(const void* data, const std::string& dtype, const std::vector<int64_t>& shape) const {
  auto value = allocate_(ffi::Shape(shape), ffi::StringToDLDataType(dtype), device_, nullptr).cast<ffi::Tensor>();
  if (const std::size_t bytes = BytesOf(dtype, shape)) {
    send_(value, const_cast<void*>(data), static_cast<int64_t>(bytes));
  }
  return value;
}

Tensor Transfer::Fetch(const ffi::Tensor& value) const {
  Tensor tensor;
  tensor.dtype = ffi::DLDataTypeToString(value.dtype());
  tensor.shape = {value.shape().begin(), value.shape().end()};
  tensor.data.resize(BytesOf(tensor.dtype, tensor.shape));
  if (!tensor.data.empty()) {
    fetch_(value, static_cast<void*>(tensor.data.data()), static_cast<int64_t>(tensor.data.size()));
  }
  return tensor;
}

}  // namespace tvmake
