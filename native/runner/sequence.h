// Runs of a package one after the other, with the states that it keeps between them.
#ifndef TVMAKE_RUNNER_SEQUENCE_H_
#define TVMAKE_RUNNER_SEQUENCE_H_

#include <optional>
#include <vector>

#include "virtual_machine.h"

namespace tvmake {

class Sequence {
 public:
  explicit Sequence(VirtualMachine* machine) : machine_(machine) {}

  // Set the inputs of all following runs.
  void SetInputs(const std::vector<Tensor>& values);

  // Run once on the inputs and states that were set. Returns the outputs.
  std::vector<Tensor> Run();

  // Keep the states that the last run gave, for the inputs that are set next.
  void Advance();

  // Let the states begin as zeros, for the inputs that are set next.
  void Reset() { states_.clear(); }

 private:
  VirtualMachine* machine_;
  std::vector<std::optional<tvm::ffi::Tensor>> states_;
};

}  // namespace tvmake

#endif  // TVMAKE_RUNNER_SEQUENCE_H_
