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
#include "weights.h"

namespace tvmake {

namespace {

const std::vector<TensorSpec> kNoTensors;

constexpr char kChoose[] = "choose one: Function(name)";

}  // namespace

// What the functions and sessions of a package share.
struct Package::Code {
  Code(const std::string& directory, const std::string& device)
      : where(directory),
        package(VerifyPackage(directory)),
        weights(directory, OpenDevice(device.empty() ? DeviceOf(package.networks[0]) : device)),
        machines(package.networks.size()),
        set_by(package.networks.size()) {
    if (package.functions.empty()) Machine(0);
  }

  // The code of a network, which is loaded when it is first needed.
  VirtualMachine& Machine(std::size_t network) {
    if (!machines[network]) machines[network].emplace(where, package.networks[network], &weights);
    return *machines[network];
  }

  const std::string where;
  const PackageManifest package;
  Weights weights;
  std::vector<std::optional<VirtualMachine>> machines;  // of the networks
  std::vector<const Session*> set_by;                   // whose inputs they have
  std::mutex in_use;                                    // by one session at a time
};

// Of a package's states, on the device; those that have not begun are empty.
using SessionStates = std::vector<std::optional<tvm::ffi::Tensor>>;

// A session, or a function of one, which has the same states.
struct Package::Session {
  static constexpr std::size_t kAll = ~std::size_t{0};

  Session(std::shared_ptr<Code> of, std::size_t function, std::shared_ptr<SessionStates> with)
      : code(std::move(of)), network(function), states(std::move(with)) {
    if (network != kAll) inputs.resize(manifest()->inputs.size());
  }

  // Null for a package with several functions.
  const Manifest* manifest() const { return network == kAll ? nullptr : &code->package.networks[network]; }

  // Throws Error for a package with several functions.
  const Manifest& Required() const {
    return code->package.networks[network == kAll ? NetworkOf(code->package, code->where, "", kChoose) : network];
  }

  const std::shared_ptr<Code> code;
  const std::size_t network;
  const std::shared_ptr<SessionStates> states;
  std::vector<std::optional<tvm::ffi::Tensor>> inputs;
  bool is_set = false;  // whether the machine got these inputs
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
  auto code = std::make_shared<Code>(directory, device);
  const std::size_t network = code->package.functions.empty() ? 0 : Session::kAll;
  auto states = std::make_shared<SessionStates>(code->package.states.size());
  return Package(std::make_unique<Session>(std::move(code), network, std::move(states)));
}

Package::Package(std::unique_ptr<Session> session) : session_(std::move(session)) {}
Package::Package(Package&&) noexcept = default;
Package& Package::operator=(Package&&) noexcept = default;
Package::~Package() = default;

Package Package::NewSession() const {
  auto states = std::make_shared<SessionStates>(session_->states->size());
  return Package(std::make_unique<Session>(session_->code, session_->network, std::move(states)));
}

const std::vector<std::string>& Package::functions() const {
  static const std::vector<std::string> none;
  return session_->network == Session::kAll ? session_->code->package.functions : none;
}

Package Package::Function(const std::string& name) const {
  Code* const code = session_->code.get();
  if (functions().empty() || name.empty()) {
    RefuseInput(code->where, "has no function '" + Printable(name) + "'", functions().empty() ? "it is one network" : kChoose);
  }
  const std::size_t network = NetworkOf(code->package, code->where, name, kChoose);
  return Package(std::make_unique<Session>(session_->code, network, session_->states));
}

const std::vector<TensorSpec>& Package::inputs() const {
  return session_->manifest() ? session_->manifest()->inputs : kNoTensors;
}
const std::vector<TensorSpec>& Package::outputs() const {
  return session_->manifest() ? session_->manifest()->outputs : kNoTensors;
}
const std::vector<TensorSpec>& Package::states() const {
  return session_->manifest() ? session_->manifest()->states : kNoTensors;
}

std::size_t Package::Find(const std::string& name) const {
  session_->Required();
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
  const Manifest& manifest = session_->Required();
  const TensorSpec& spec = InputAt(*this, session_->code->where, index);
  CheckFits(spec, spec.dtype, shape);
  CheckBounds(manifest, spec, shape);
  Code* const code = session_->code.get();
  // New memory, as a state may be in that of the value before.
  session_->inputs[index] = OnDevice(code, [&] { return code->weights.transfer().Send(data, spec.dtype, shape); });
  session_->is_set = false;
}

void Package::Run() {
  const Manifest& manifest = session_->Required();
  Code* const code = session_->code.get();
  OnDevice(code, [&] {
    VirtualMachine& machine = code->Machine(session_->network);
    const Session*& set_by = code->set_by[session_->network];
    if (!session_->is_set || set_by != session_.get() || !manifest.states.empty()) {
      std::vector<tvm::ffi::Tensor> values;
      for (std::size_t index = 0; index < session_->inputs.size(); ++index) {
        if (!session_->inputs[index]) RefuseInput(code->where, "input '" + inputs()[index].name + "' is not set");
        values.push_back(*session_->inputs[index]);
      }
      SessionStates states;
      for (const std::size_t index : manifest.state_indices) states.push_back((*session_->states)[index]);
      set_by = nullptr;
      machine.SetInputs(values, &states);
      set_by = session_.get();
      session_->is_set = true;
    }
    machine.Start();
    machine.Wait();
    session_->outputs = machine.Outputs();
    const std::vector<tvm::ffi::Tensor> next = machine.NextStates();
    for (std::size_t index = 0; index < next.size(); ++index) {
      (*session_->states)[manifest.state_indices[index]] = next[index];
    }
  });
}

const Tensor& Package::Output(std::size_t index) const {
  if (index >= session_->outputs.size()) {
    RefuseInput(session_->code->where,
                session_->outputs.empty() ? "it has not run yet" : "it has no output number " + std::to_string(index));
  }
  return session_->outputs[index];
}

void Package::Reset() {
  OnDevice(session_->code.get(), [&] { session_->states->assign(session_->states->size(), std::nullopt); });
}

std::vector<uint8_t> Package::Snapshot() const {
  Code* const code = session_->code.get();
  return OnDevice(code, [&] {
    StateValues values;
    for (const std::optional<tvm::ffi::Tensor>& state : *session_->states) {
      values.emplace_back();
      if (state) values.back() = code->weights.transfer().Fetch(*state);
    }
    return WriteSnapshot(code->package, values);
  });
}

void Package::Restore(const void* data, std::size_t bytes) {
  Code* const code = session_->code.get();
  const StateValues values = ReadSnapshot(code->package, data, bytes);
  OnDevice(code, [&] {
    SessionStates states;
    for (const std::optional<Tensor>& value : values) {
      states.emplace_back();
      if (value) states.back() = code->weights.transfer().Send(value->data.data(), value->dtype, value->shape);
    }
    *session_->states = std::move(states);
  });
}

}  // namespace tvmake
