#include "virtual_machine.h"

#include <elf.h>
#include <limits.h>
#include <stdlib.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>

#include "device.h"
#include "errors.h"
#include "extents.h"
#include "states.h"

namespace tvmake {
namespace {

namespace ffi = tvm::ffi;
using ffi::AnyView;
using ffi::Function;

constexpr int kPooled = 2;  // tvm::runtime::memory::AllocatorType

// Every memory scope of a program (buffers, textures ...) is a device of its own to the virtual machine; more than it
// asks for do no harm.
constexpr int kScopes = 8;

constexpr char kMain[] = "main";

constexpr std::size_t kMostElements = std::size_t{1} << 40;  // of a value; more is a mistake, or an attack

std::string Spelled(const std::string& dtype, const std::vector<int64_t>& shape,
                    const std::vector<std::string>& names = {}) {
  std::string text = dtype + "[";
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const bool is_named = axis < names.size() && !names[axis].empty();
    text += (axis ? ", " : "") + (is_named ? names[axis] : std::to_string(shape[axis]));
  }
  return text + "]";
}

const char* ProcessorName(int machine) {
  switch (machine) {
    case EM_386: return "x86 (32 bits)";
    case EM_ARM: return "arm (32 bits)";
    case EM_X86_64: return "x86-64";
    case EM_AARCH64: return "aarch64";
    case EM_RISCV: return "RISC-V";
    default: return "another processor";
  }
}

int ProcessorOf(const std::string& path) {
  unsigned char head[20] = {};
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(head), sizeof head);
  return std::memcmp(head, ELFMAG, SELFMAG) == 0 ? head[18] | head[19] << 8 : EM_NONE;
}

// Where what the loader maps of a file ends; a process that reads beyond the file's end is killed.
template <typename Header, typename Segment>
std::uint64_t EndOfSegments(std::ifstream* file) {
  Header header{};
  file->seekg(0).read(reinterpret_cast<char*>(&header), sizeof header);
  if (!*file) return sizeof header;
  std::uint64_t end = 0;
  for (int index = 0; index < header.e_phnum; ++index) {
    Segment segment{};
    const std::uint64_t offset = header.e_phoff + static_cast<std::uint64_t>(index) * header.e_phentsize;
    file->seekg(static_cast<std::streamoff>(offset)).read(reinterpret_cast<char*>(&segment), sizeof segment);
    if (!*file) return offset + sizeof segment;
    if (segment.p_type == PT_LOAD) end = std::max<std::uint64_t>(end, segment.p_offset + segment.p_filesz);
  }
  return end;
}

void RequireWhole(const std::string& path, const std::string& directory) {
  std::ifstream file(path, std::ios::binary);
  unsigned char ident[EI_NIDENT] = {};
  file.read(reinterpret_cast<char*>(ident), sizeof ident);
  // The loader says what other files are not.
  if (std::memcmp(ident, ELFMAG, SELFMAG) != 0 || ident[EI_DATA] != ELFDATA2LSB) return;
  file.clear();
  const std::uint64_t end = ident[EI_CLASS] == ELFCLASS64 ? EndOfSegments<Elf64_Ehdr, Elf64_Phdr>(&file)
                                                          : EndOfSegments<Elf32_Ehdr, Elf32_Phdr>(&file);
  file.clear();
  const auto size = static_cast<std::uint64_t>(file.seekg(0, std::ios::end).tellg());
  if (size < end) {
    RefuseInput(directory, "mod.so is cut short: it has " + std::to_string(size) + " bytes of " + std::to_string(end),
                kMakeAgain);
  }
}

std::string Absolute(const std::string& path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) ? resolved : path;
}

ffi::Module Load(const std::string& directory) {
  // A bare name would go to the loader's search path.
  const std::string path = Absolute(directory + "/" + kLibrary);
  const int theirs = ProcessorOf(path), ours = ProcessorOf("/proc/self/exe");
  RequireWhole(path, directory);
  const bool is_foreign = theirs != EM_NONE && ours != EM_NONE && theirs != ours;
  try {
    return ffi::Module::LoadFromFile(path);
  } catch (const ffi::Error& error) {
    std::string problem = "mod.so does not load";
    if (is_foreign) problem += std::string(": it is code for ") + ProcessorName(theirs);
    else problem += " (" + Cause(error.message()) + ")";
    FailDevice(directory, problem, "compile for this device: the target's mtriple and mcpu, and cc that links for it");
  }
}

Function Required(const ffi::Module& module, const char* name) {
  const auto found = const_cast<ffi::ModuleObj*>(module.operator->())->GetFunction(ffi::String(name));
  if (!found.has_value()) TVM_FFI_THROW(RuntimeError) << "its virtual machine has no " << name;
  return *found;
}

[[noreturn]] void RefuseCode(const std::string& directory, const std::string& code, const std::string& told) {
  RefuseInput(directory, "mod.so " + code + ", its manifest declares " + told, kMakeAgain);
}

std::string Between(const std::string& text, const std::string& opening, const std::string& closing) {
  const std::size_t before = text.find(opening);
  if (before == std::string::npos) return "";
  const std::size_t begin = before + opening.size(), end = text.find(closing, begin);
  return end == std::string::npos ? "" : text.substr(begin, end - begin);
}

// What TVM says of an argument of main that does not fit the code; nothing of other messages.
void CheckMessage(const std::string& directory, const Manifest& manifest, const std::string& message) {
  const std::size_t begin = message.find("ErrorContext(fn=main, loc=param[");
  if (begin == std::string::npos) return;
  const std::string context = message.substr(begin);
  const std::string name = Between(context, "param=", ", annotation="), dtype = Between(context, "dtype=\"", "\"");
  if (name.empty() || dtype.empty()) return;
  std::string shape = Between(context, "annotation=R.Tensor((", "), dtype=");
  if (!shape.empty() && shape.back() == ',') shape.pop_back();
  const std::string taken = dtype + "[" + shape + "]";
  const std::size_t count = manifest.inputs.size();
  for (std::size_t index = 0; index < count + manifest.states.size(); ++index) {
    const TensorSpec& spec = index < count ? manifest.inputs[index] : manifest.states[index - count];
    if (manifest.arguments[index] == name && Spelled(spec.dtype, spec.shape, spec.names) == taken) {
      RefuseInput("inputs", "the sizes of '" + spec.name + "' do not fit the other inputs; it is " + taken);
    }
  }
  RefuseCode(directory, "takes '" + name + "' as " + taken, "otherwise");
}

// What a network reports of sizes for which it cannot be computed, nothing of other messages; the mark is
// that of workflow/tvmake/ir/attributes.py.
void CheckReport(const std::string& message) {
  const std::string mark = "|size check|";
  std::string report = Between(message, mark, mark);
  const std::string before = Between(message, "(", " vs. ");
  const std::string sizes[] = {before.substr(before.rfind('(') + 1), Between(message, " vs. ", ")")};
  for (std::size_t index = 0; index < 2; ++index) {
    const std::string field = "{" + std::to_string(index) + "}";
    const std::size_t at = report.find(field);
    if (at != std::string::npos) report.replace(at, field.size(), sizes[index]);
  }
  if (!report.empty()) RefuseInput("inputs", report, "give inputs of sizes that fit");
}

void Invoke(const Function& invoke) {
  try {
    invoke(kMain);
  } catch (const ffi::Error& error) {
    CheckReport(error.message());
    throw;
  }
}

bool HasKind(const ffi::Module& module, const std::string& kind) {
  if (module->kind() == kind) return true;
  for (const ffi::Any& imported : module->imports()) {
    if (HasKind(imported.cast<ffi::Module>(), kind)) return true;
  }
  return false;
}

// Whether the code is what the manifest is about: digests do not tell where a manifest was written for other code.
void CheckArguments(const ffi::Module& machine, const Manifest& manifest, const std::string& directory) {
  const auto count = Required(machine, "get_function_arity")(ffi::String(kMain)).cast<int64_t>();
  const Function name_of = Required(machine, "get_function_param_name");
  if (static_cast<std::size_t>(count) != manifest.arguments.size()) {
    RefuseCode(directory, "takes " + std::to_string(count) + (count == 1 ? " argument" : " arguments"),
               std::to_string(manifest.arguments.size()));
  }
  for (int64_t index = 0; index < count; ++index) {
    const std::string actual = name_of(ffi::String(kMain), index).cast<ffi::String>();
    const std::string& declared = manifest.arguments[static_cast<std::size_t>(index)];
    if (actual != declared) {
      RefuseCode(directory, "takes '" + actual + "' as argument " + std::to_string(index), "'" + declared + "'");
    }
  }
}

std::vector<int64_t> ShapeOf(const ffi::Tensor& value) { return {value.shape().begin(), value.shape().end()}; }

// Throws Error unless these are the outputs and states that the manifest declares.
void CheckResults(const Manifest& manifest, const std::vector<ffi::Tensor>& results) {
  const std::size_t count = manifest.outputs.size(), declared = count + manifest.next_states.size();
  if (results.size() != declared) {
    RefuseCode("package", "gives " + std::to_string(results.size()) + (results.size() == 1 ? " output" : " outputs"),
               std::to_string(declared));
  }
  for (std::size_t index = 0; index < declared; ++index) {
    const TensorSpec& spec = index < count ? manifest.outputs[index] : manifest.next_states[index - count];
    const std::string dtype = ffi::DLDataTypeToString(results[index].dtype());
    const std::vector<int64_t> shape = ShapeOf(results[index]);
    if (!Fits(spec, dtype, shape)) {
      RefuseCode("package", "gives '" + spec.name + "' as " + Spelled(dtype, shape),
                 Spelled(spec.dtype, spec.shape, spec.names));
    }
  }
}

}  // namespace

bool Fits(const TensorSpec& spec, const std::string& dtype, const std::vector<int64_t>& shape) {
  bool fits = dtype == spec.dtype && shape.size() == spec.shape.size();
  for (std::size_t axis = 0; fits && axis < shape.size(); ++axis) {
    fits = spec.shape[axis] == kDynamic ? shape[axis] >= 0 : shape[axis] == spec.shape[axis];
  }
  return fits;
}

void CheckFits(const TensorSpec& spec, const std::string& dtype, const std::vector<int64_t>& shape) {
  if (!Fits(spec, dtype, shape)) {
    RefuseInput("inputs", "input '" + spec.name + "' is " + Spelled(dtype, shape) + ", the package takes " +
                              Spelled(spec.dtype, spec.shape, spec.names));
  }
}

std::size_t BytesOf(const std::string& dtype, const std::vector<int64_t>& shape) {
  std::size_t count = 1;
  for (const int64_t extent : shape) {
    const auto factor = static_cast<std::size_t>(extent);
    if (factor != 0 && count > kMostElements / factor) RefuseInput("inputs", Spelled(dtype, shape) + " is too large");
    count *= factor;
  }
  return ffi::GetDataSize(count, ffi::StringToDLDataType(dtype));
}

VirtualMachine::VirtualMachine(const std::string& directory, const Manifest& manifest, Weights* weights)
    : where_(CodeDirectory(directory, manifest)),
      manifest_(manifest),
      transfer_(weights->transfer()),
      library_(Load(where_)),
      machine_(library_),  // until there is the real one
      clear_pool_(Function::GetGlobalRequired("vm.builtin.memory_manager.clear")),
      sync_(Function::GetGlobalRequired("runtime.Device_StreamSync")) {
  const DLDevice device = transfer_.device();
  const std::string kind = DeviceOf(manifest);
  if (kind != "cpu" && manifest.has_kernels && !HasKind(library_, kind)) {
    RefuseCode(where_, "has no kernels for " + kind, "that it has");
  }
  try {
    machine_ = Required(library_, "vm_load_executable")().cast<ffi::Module>();
    std::vector<AnyView> devices;
    const auto add = [&](DLDevice target) {
      devices.insert(devices.end(),
                     {AnyView(static_cast<int>(target.device_type)), AnyView(target.device_id), AnyView(kPooled)});
    };
    if (device.device_type != kDLCPU) {
      for (int i = 0; i < kScopes; ++i) add(device);
    }
    add(DLDevice{kDLCPU, 0});  // shape functions run there
    ffi::Any nothing;
    Required(machine_, "vm_initialization").CallPacked(devices.data(), static_cast<int>(devices.size()), &nothing);
    CheckArguments(machine_, manifest, where_);
    set_input_ = Required(machine_, "set_input");
    invoke_ = Required(machine_, "invoke_stateful");
    get_output_ = Required(machine_, "get_output");
    get_output_arity_ = Required(machine_, "get_output_arity");

    parameters_ = weights->Of(manifest);
  } catch (const ffi::Error& error) {
    FailDevice(where_, "cannot be set up: " + Cause(error.message()));
  }
}

void VirtualMachine::SetInputs(const std::vector<ffi::Tensor>& inputs,
                               std::vector<std::optional<ffi::Tensor>>* states) {
  std::vector<std::vector<int64_t>> shapes;
  for (const ffi::Tensor& input : inputs) shapes.push_back(ShapeOf(input));
  CheckExtents(manifest_, shapes);  // the states' first shapes follow from them
  states->resize(manifest_.states.size());
  if (std::find(states->begin(), states->end(), std::nullopt) != states->end()) Begin(shapes, states);
  for (const std::optional<ffi::Tensor>& state : *states) shapes.push_back(ShapeOf(*state));
  if (!states->empty()) CheckExtents(manifest_, shapes);
  FreeOtherShapes(std::move(shapes));
  const ffi::String main(kMain);
  std::vector<AnyView> arguments = {main};
  arguments.insert(arguments.end(), inputs.begin(), inputs.end());
  for (const std::optional<ffi::Tensor>& state : *states) arguments.push_back(*state);
  arguments.insert(arguments.end(), parameters_.begin(), parameters_.end());
  ffi::Any nothing;
  set_input_.CallPacked(arguments.data(), static_cast<int>(arguments.size()), &nothing);
}

void VirtualMachine::Begin(const std::vector<std::vector<int64_t>>& inputs,
                           std::vector<std::optional<ffi::Tensor>>* states) const {
  const std::vector<std::vector<int64_t>> initial = InitialShapes(manifest_, inputs);
  for (std::size_t index = 0; index < initial.size(); ++index) {
    if ((*states)[index]) continue;
    const std::string& dtype = manifest_.states[index].dtype;
    const std::vector<uint8_t> zeros(BytesOf(dtype, initial[index]));
    (*states)[index] = transfer_.Send(zeros.data(), dtype, initial[index]);
  }
}

// TVM's pool keeps every block by its exact size, so that a process would grow with each shape that it runs.
void VirtualMachine::FreeOtherShapes(std::vector<std::vector<int64_t>> shapes) {
  if (!shapes_.empty() && shapes != shapes_) clear_pool_();
  shapes_ = std::move(shapes);
}

void VirtualMachine::Start() {
  try {
    Invoke(invoke_);
  } catch (const ffi::Error& error) {
    CheckMessage(where_, manifest_, error.message());
    throw;
  }
}

void VirtualMachine::Wait() { sync_(transfer_.device(), 0); }

std::vector<Tensor> VirtualMachine::Outputs() const {
  std::vector<Tensor> outputs;
  const std::vector<ffi::Tensor> results = Results();
  for (std::size_t index = 0; index < manifest_.outputs.size(); ++index) outputs.push_back(transfer_.Fetch(results[index]));
  return outputs;
}

std::vector<ffi::Tensor> VirtualMachine::NextStates() const {
  if (manifest_.states.empty()) return {};
  const std::vector<ffi::Tensor> results = Results();
  return {results.begin() + static_cast<std::ptrdiff_t>(manifest_.outputs.size()), results.end()};
}

std::vector<ffi::Tensor> VirtualMachine::Results() const {
  const ffi::String main(kMain);
  std::vector<AnyView> indices = {main};
  std::vector<ffi::Tensor> results;
  Collect(&indices, &results);
  CheckResults(manifest_, results);
  return results;
}

void VirtualMachine::Collect(std::vector<AnyView>* indices, std::vector<ffi::Tensor>* results) const {
  ffi::Any arity, value;
  get_output_arity_.CallPacked(indices->data(), static_cast<int>(indices->size()), &arity);
  const auto count = arity.cast<int64_t>();
  if (count < 0) {
    get_output_.CallPacked(indices->data(), static_cast<int>(indices->size()), &value);
    results->push_back(value.cast<ffi::Tensor>());
    return;
  }
  for (int64_t index = 0; index < count; ++index) {
    indices->push_back(AnyView(index));
    Collect(indices, results);
    indices->pop_back();
  }
}

void VirtualMachine::Watch(std::function<void(const std::string&, bool)> watcher) {
  const auto instrument = [watcher = std::move(watcher)](ffi::PackedArgs arguments, ffi::Any*) {
    watcher(arguments[1].cast<ffi::String>(), arguments[2].cast<bool>());
  };
  Required(machine_, "set_instrument")(Function::FromPacked(instrument));
}

}  // namespace tvmake
