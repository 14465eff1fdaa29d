#include "sequence.h"

namespace tvmake {

void Sequence::SetInputs(const std::vector<Tensor>& values) {
  std::vector<tvm::ffi::Tensor> sent;
  for (const Tensor& value : values) sent.push_back(machine_->Send(value.data.data(), value.dtype, value.shape));
  machine_->SetInputs(sent, &states_);
}

std::vector<Tensor> Sequence::Run() {
  machine_->Start();
  return machine_->Outputs();
}

}  // namespace tvmake
