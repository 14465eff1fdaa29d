// Values between this process's memory and a device's.
#ifndef TVMAKE_TRANSFER_H_
#define TVMAKE_TRANSFER_H_

#include <dlpack/dlpack.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tvmake/package.h"

namespace tvmake {

class Transfer {
 public:
  explicit Transfer(DLDevice device);

  DLDevice device() const { return device_; }

  // A value on the device.
  tvm::ffi::Tensor Send(const void* data, const std::string& dtype, const std::vector<int64_t>& shape) const;

  // A copy of a value, here.
  Tensor Fetch(const tvm::ffi::Tensor& value) const;

 private:
  DLDevice device_;
  tvm::ffi::Function allocate_, send_, fetch_;
};

}  // namespace tvmake

#endif  // TVMAKE_TRANSFER_H_
