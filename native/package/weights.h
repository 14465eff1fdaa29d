// A package's weights on a device: mapped from their file, and sent to another device once, whatever functions use them.
#ifndef TVMAKE_WEIGHTS_H_
#define TVMAKE_WEIGHTS_H_

#include <dlpack/dlpack.h>
#include <tvm/ffi/container/tensor.h>

#include <map>
#include <string>
#include <vector>

#include "manifest.h"
#include "transfer.h"
#include "weights_file.h"

namespace tvmake {

class Weights {
 public:
  // directory: of the package. Throws Error if the file is damaged.
  Weights(const std::string& directory, DLDevice device);

  const Transfer& transfer() const { return transfer_; }

  // The parameters of a network, in order. Throws Error if the file lacks one.
  std::vector<tvm::ffi::Tensor> Of(const Manifest& manifest);

 private:
  std::string where_;
  Transfer transfer_;
  WeightsFile file_;
  std::map<std::string, tvm::ffi::Tensor> loaded_;
};

}  // namespace tvmake

#endif  // TVMAKE_WEIGHTS_H_
