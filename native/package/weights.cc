#include "weights.h"

#include <tvm/ffi/dtype.h>

#include <optional>
#include <stdexcept>

#include "errors.h"

namespace tvmake {
namespace {

namespace ffi = tvm::ffi;

WeightsFile OpenWeights(const std::string& directory) {
  try {
    return WeightsFile(directory + "/" + kWeights);
  } catch (const std::invalid_argument& error) {
    RefuseInput(directory, std::string(kWeights) + " is damaged: " + error.what(), kMakeAgain);
  }
}

}  // namespace

Weights::Weights(const std::string& directory, DLDevice device)
    : where_(directory), transfer_(device), file_(OpenWeights(directory)) {}

std::vector<ffi::Tensor> Weights::Of(const Manifest& manifest) {
  std::vector<ffi::Tensor> parameters;
  for (const std::string& name : manifest.weights) {
    auto found = loaded_.find(name);
    if (found == loaded_.end()) {
      const std::optional<ffi::Tensor> stored = file_.Load(name);
      if (!stored) RefuseInput(where_, std::string(kWeights) + " lacks the parameter '" + name + "'", kMakeAgain);
      ffi::Tensor value = *stored;
      if (transfer_.device().device_type != kDLCPU) {
        const std::vector<int64_t> shape(value.shape().begin(), value.shape().end());
        value = transfer_.Send(value.data_ptr(), ffi::DLDataTypeToString(value.dtype()), shape);
      }
      found = loaded_.emplace(name, value).first;
    }
    parameters.push_back(found->second);
  }
  return parameters;
}

}  // namespace tvmake
