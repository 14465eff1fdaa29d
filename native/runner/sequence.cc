#include "sequence.h"

namespace tvmake {

void Sequence::SetInputs(const std::vector<Tensor>& values) {
  std::vector<tvm::ffi::Tensor> sent;
  for (const Tensor& value : values) sent.push_back(machine_->transfer().Send(value.data.data(), value.dtype, value.shape));
  machine_->SetInputs(sent, &states_);
}

std::vector<Tensor> Sequence::Run() {
  machine_->Start();
  return machine_->Outputs();
}

void Sequence::Advance() {
  const std::vector<tvm::ffi::Tensor> next = machine_->NextStates();
  states_ = {next.begin(), next.end()};
}

}  // namespace tvmake
