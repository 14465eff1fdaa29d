// A verified package's network on a device, with its parameters loaded.
#ifndef TVMAKE_VIRTUAL_MACHINE_H_
#define TVMAKE_VIRTUAL_MACHINE_H_

#include <dlpack/dlpack.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "manifest.h"
#include "weights.h"

namespace tvmake {

// Whether a value of this type and shape is what an input or state takes, or an output gives.
bool Fits(const TensorSpec& spec, const std::string& dtype, const std::vector<int64_t>& shape);

// Throws Error unless a value of this type and shape is what an input takes.
void CheckFits(const TensorSpec& spec, const std::string& dtype, const std::vector<int64_t>& shape);

// How many bytes a value has. Throws Error if it is too large for any device.
std::size_t BytesOf(const std::string& dtype, const std::vector<int64_t>& shape);

class VirtualMachine {
 public:
  // directory: of the package, which has the code, or a directory with the function's.
  // Throws Error if the device's loader or TVM refuses the package.
  VirtualMachine(const std::string& directory, const Manifest& manifest, Weights* weights);

  // Values between here and the device.
  const Transfer& transfer() const { return transfer_; }

  // Give main its arguments; they stay for every following run.
  //
  // states: those that have not begun become the zeros that they begin with; an empty list if none has.
  // Throws Error if the sizes are not those that the package takes.
  void SetInputs(const std::vector<tvm::ffi::Tensor>& inputs,
                 std::vector<std::optional<tvm::ffi::Tensor>>* states);

  // Start main on the inputs set last. On a CPU it has also ended when this returns.
  void Start();

  // Wait for all that was started.
  void Wait();

  // The last run's outputs, in signature order. Throws Error if they are not those that the manifest declares.
  std::vector<Tensor> Outputs() const;

  // The values of the states after the last run, in signature order, on the device. They may share the memory of inputs.
  std::vector<tvm::ffi::Tensor> NextStates() const;

  // Call a function before and after every kernel call, with the kernel's name.
  void Watch(std::function<void(const std::string& name, bool is_before)> watcher);

 private:
  std::vector<tvm::ffi::Tensor> Results() const;
  void Collect(std::vector<tvm::ffi::AnyView>* indices, std::vector<tvm::ffi::Tensor>* results) const;
  void Begin(const std::vector<std::vector<int64_t>>& inputs,
             std::vector<std::optional<tvm::ffi::Tensor>>* states) const;
  void FreeOtherShapes(std::vector<std::vector<int64_t>> shapes);

  std::string where_;
  Manifest manifest_;
  Transfer transfer_;
  tvm::ffi::Module library_, machine_;
  tvm::ffi::Function set_input_, invoke_, get_output_, get_output_arity_, clear_pool_, sync_;
  std::vector<tvm::ffi::Tensor> parameters_;
  std::vector<std::vector<int64_t>> shapes_;  // of the inputs and states set last
};

}  // namespace tvmake

#endif  // TVMAKE_VIRTUAL_MACHINE_H_
