#include "tvmake/package.h"

#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>

#include <optional>
#include <utility>

#include "device.h"
#include "errors.h"
#include "extents.h"
#include "manifest.h"
#include "virtual_machine.h"

namespace tvmake {

struct Package::State {
  State(const std::string& directory, const std::string& device)
      : where(directory),
        manifest(VerifyPackage(directory)),
        machine(directory, manifest, OpenDevice(device.empty() ? DeviceOf(manifest) : device)),
        inputs(manifest.inputs.size()) {}

  std::string where;
  Manifest manifest;
  VirtualMachine machine;
  std::vector<std::optional<tvm::ffi::Tensor>> inputs;
  bool is_set = false;  // whether the machine has these inputs
  std::vector<Tensor> outputs;
};

namespace {

template <typename Work>
auto OnDevice(const std::string& where, Work work) {
  try {
    return work();
  } catch (const tvm::ffi::Error& error) {
    FailDevice(where, "running it failed: " + Cause(error.message()));
  }
}

const TensorSpec& InputAt(const Package& package, const std::string& where, std::size_t index) {
  const std::size_t count = package.inputs().size();
  if (index >= count) {
    RefuseInput(where, "it has " + std::to_string(count) + " inputs, no number " + std::to_string(index));
  }
  return package.inputs()[index];
}

}  // namespace

Package Package::Load(const std::string& directory, const std::string& device) {
  return Package(std::make_unique<State>(directory, device));
}

Package::Package(std::unique_ptr<State> state) : state_(std::move(state)) {}
Package::Package(Package&&) noexcept = default;
Package& Package::operator=(Package&&) noexcept = default;
Package::~Package() = default;

const std::vector<TensorSpec>& Package::inputs() const { return state_->manifest.inputs; }
const std::vector<TensorSpec>& Package::outputs() const { return state_->manifest.outputs; }

std::size_t Package::Find(const std::string& name) const {
  for (std::size_t index = 0; index < inputs().size(); ++index) {
    if (inputs()[index].name == name) return index;
  }
  RefuseInput(state_->where, "it has no input '" + name + "'");
}

void Package::CheckType(std::size_t index, const std::string& kind, std::size_t bytes) const {
  const TensorSpec& spec = InputAt(*this, state_->where, index);
  const std::string given = kind == "bool" ? kind : kind + std::to_string(8 * bytes);
  const DLDataType taken = tvm::ffi::StringToDLDataType(spec.dtype);
  const bool is_integer = taken.code == kDLInt || taken.code == kDLUInt;
  const bool is_raw = kind == "uint" && !is_integer && taken.bits == 8 * bytes;
  if (given != spec.dtype && !is_raw) {
    RefuseInput(state_->where, "input '" + spec.name + "' takes " + spec.dtype + ", and the elements are " + given);
  }
}

void Package::SetInput(const std::string& name, const void* data, const std::vector<int64_t>& shape) {
  SetInput(Find(name), data, shape);
}

void Package::SetInput(std::size_t index, const void* data, const std::vector<int64_t>& shape) {
  const TensorSpec& spec = InputAt(*this, state_->where, index);
  CheckFits(spec, spec.dtype, shape);
  CheckBounds(state_->manifest, spec, shape);
  state_->inputs[index] = OnDevice(state_->where, [&] { return state_->machine.Send(data, spec.dtype, shape); });
  state_->is_set = false;
}

void Package::Run() {
  OnDevice(state_->where, [&] {
    if (!state_->is_set) {
      std::vector<tvm::ffi::Tensor> values;
      std::vector<std::vector<int64_t>> shapes;
      for (std::size_t index = 0; index < state_->inputs.size(); ++index) {
        if (!state_->inputs[index]) RefuseInput(state_->where, "input '" + inputs()[index].name + "' is not set");
        const tvm::ffi::Tensor& value = *state_->inputs[index];
        values.push_back(value);
        shapes.emplace_back(value.shape().begin(), value.shape().end());
      }
      CheckExtents(state_->manifest, shapes);
      state_->machine.SetInputs(values);
      state_->is_set = true;
    }
    state_->machine.Start();
    state_->machine.Wait();
    state_->outputs = state_->machine.Outputs();
    CheckOutputs(state_->manifest, state_->outputs);
  });
}

const Tensor& Package::Output(std::size_t index) const {
  if (index >= state_->outputs.size()) {
    RefuseInput(state_->where,
                state_->outputs.empty() ? "it has not run yet" : "it has no output number " + std::to_string(index));
  }
  return state_->outputs[index];
}

}  // namespace tvmake
