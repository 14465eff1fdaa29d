#include "tvmake/package.h"

#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>

#include <mutex>
#include <optional>
#include <utility>

#include "device.h"
#include "errors.h"
#include "extents.h"
#include "manifest.h"
#include "snapshot.h"
#include "virtual_machine.h"

namespace tvmake {

// What the sessions of a package share.
struct Package::Code {
  Code(const std::string& directory, const std::string& device)
      : where(directory),
        manifest(VerifyPackage(directory)),
        machine(directory, manifest, OpenDevice(device.empty() ? DeviceOf(manifest) : device)) {}

  const std::string where;
  const Manifest manifest;
  VirtualMachine machine;
  std::mutex in_use;                // by one session at a time
  const Session* set_by = nullptr;  // the session whose inputs the machine has
};

struct Package::Session {
  explicit Session(std::shared_ptr<Code> of) : code(std::move(of)), inputs(code->manifest.inputs.size()) {}

  const std::shared_ptr<Code> code;
  std::vector<std::optional<tvm::ffi::Tensor>> inputs;
  bool is_set = false;                   // whether the machine got these inputs
  std::vector<tvm::ffi::Tensor> states;  // on the device; none before the first run
  std::vector<Tensor> outputs;
};

namespace {

template <typename Code, typename Work>
auto OnDevice(Code* code, Work work) {
  const std::lock_guard<std::mutex> lock(code->in_use);
  try {
    return work();
  } catch (const tvm::ffi::Error& error) {
    FailDevice(code->where, "running it failed: " + Cause(error.message()));
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
  return Package(std::make_shared<Code>(directory, device));
}

Package::Package(std::shared_ptr<Code> code) : session_(std::make_unique<Session>(std::move(code))) {}
Package::Package(Package&&) noexcept = default;
Package& Package::operator=(Package&&) noexcept = default;
Package::~Package() = default;

Package Package::NewSession() const { return Package(session_->code); }

const std::vector<TensorSpec>& Package::inputs() const { return session_->code->manifest.inputs; }
const std::vector<TensorSpec>& Package::outputs() const { return session_->code->manifest.outputs; }
const std::vector<TensorSpec>& Package::states() const { return session_->code->manifest.states; }

std::size_t Package::Find(const std::string& name) const {
  for (std::size_t index = 0; index < inputs().size(); ++index) {
    if (inputs()[index].name == name) return index;
  }
  RefuseInput(session_->code->where, "it has no input '" + name + "'");
}

void Package::CheckType(std::size_t index, const std::string& kind, std::size_t bytes) const {
  const TensorSpec& spec = InputAt(*this, session_->code->where, index);
  const std::string given = kind == "bool" ? kind : kind + std::to_string(8 * bytes);
  const DLDataType taken = tvm::ffi::StringToDLDataType(spec.dtype);
  const bool is_integer = taken.code == kDLInt || taken.code == kDLUInt;
  const bool is_raw = kind == "uint" && !is_integer && taken.bits == 8 * bytes;
  if (given != spec.dtype && !is_raw) {
    RefuseInput(session_->code->where, "input '" + spec.name + "' takes " + spec.dtype + ", and the elements are " + given);
  }
}

void Package::SetInput(const std::string& name, const void* data, const std::vector<int64_t>& shape) {
  SetInput(Find(name), data, shape);
}

void Package::SetInput(std::size_t index, const void* data, const std::vector<int64_t>& shape) {
  const TensorSpec& spec = InputAt(*this, session_->code->where, index);
  CheckFits(spec, spec.dtype, shape);
  CheckBounds(session_->code->manifest, spec, shape);
  Code* const code = session_->code.get();
  // New memory, as a state may be in that of the value before.
  session_->inputs[index] = OnDevice(code, [&] { return code->machine.Send(data, spec.dtype, shape); });
  session_->is_set = false;
}

void Package::Run() {
  Code* const code = session_->code.get();
  OnDevice(code, [&] {
    std::vector<tvm::ffi::Tensor> states = session_->states;
    if (!session_->is_set || code->set_by != session_.get() || !code->manifest.states.empty()) {
      std::vector<tvm::ffi::Tensor> values;
      for (std::size_t index = 0; index < session_->inputs.size(); ++index) {
        if (!session_->inputs[index]) RefuseInput(code->where, "input '" + inputs()[index].name + "' is not set");
        values.push_back(*session_->inputs[index]);
      }
      code->set_by = nullptr;
      code->machine.SetInputs(values, &states);
      code->set_by = session_.get();
      session_->is_set = true;
    }
    code->machine.Start();
    code->machine.Wait();
    session_->outputs = code->machine.Outputs();
    session_->states = code->machine.NextStates();
  });
}

const Tensor& Package::Output(std::size_t index) const {
  if (index >= session_->outputs.size()) {
    RefuseInput(session_->code->where,
                session_->outputs.empty() ? "it has not run yet" : "it has no output number " + std::to_string(index));
  }
  return session_->outputs[index];
}

void Package::Reset() { session_->states.clear(); }

std::vector<uint8_t> Package::Snapshot() const {
  Code* const code = session_->code.get();
  return OnDevice(code, [&] {
    std::vector<Tensor> values;
    for (const tvm::ffi::Tensor& state : session_->states) values.push_back(code->machine.Fetch(state));
    return WriteSnapshot(code->manifest, values);
  });
}

void Package::Restore(const void* data, std::size_t bytes) {
  Code* const code = session_->code.get();
  const std::vector<Tensor> values = ReadSnapshot(code->manifest, data, bytes);
  session_->states = OnDevice(code, [&] {
    std::vector<tvm::ffi::Tensor> states;
    for (const Tensor& value : values) {
      states.push_back(code->machine.Send(value.data.data(), value.dtype, value.shape));
    }
    return states;
  });
}

}  // namespace tvmake
