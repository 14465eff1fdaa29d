#include "module.h"

#include <tvm/ffi/cast.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/support/serializer.h>

#include <set>
#include <utility>

#include "byte_streams.h"

namespace tvmake {
namespace clml {
namespace {

namespace ffi = tvm::ffi;
namespace json = tvm::ffi::json;

constexpr char kReady[] = "_ready";

struct Modules {
  std::mutex mutex;
  std::set<ClmlModule*> all;
};

// Those that are loaded, for the report.
Modules& Loaded() {
  static auto* modules = new Modules();  // never freed: modules may outlive every static
  return *modules;
}

opencl::Memory* MemoryOf(const ffi::Tensor& tensor) { return static_cast<opencl::Memory*>(tensor.data_ptr()); }

std::string Report() {
  json::Array rows;
  std::lock_guard<std::mutex> lock(Loaded().mutex);
  for (ClmlModule* module : Loaded().all) {
    for (const ClmlModule::State& state : module->States()) {
      json::Object row;
      row.Set(ffi::String("name"), ffi::String(module->symbol()));
      row.Set(ffi::String("layers"), static_cast<int64_t>(state.layers));
      row.Set(ffi::String("clml"), ffi::String(state.version));
      row.Set(ffi::String("why_not"), ffi::String(state.why));
      row.Set(ffi::String("bytes"), static_cast<int64_t>(state.bytes));
      rows.push_back(row);
    }
  }
  return std::string(json::Stringify(rows));
}

// One line on all modules that have been called; empty when none has.
std::string Summary() {
  size_t all = 0, by_clml = 0;
  std::string version, why;
  std::lock_guard<std::mutex> lock(Loaded().mutex);
  for (ClmlModule* module : Loaded().all) {
    for (const ClmlModule::State& state : module->States()) {
      ++all;
      if (state.version.empty()) {
        why = state.why;
      } else {
        ++by_clml;
        version = state.version;
      }
    }
  }
  if (all == 0) return std::string();
  std::string text = std::to_string(by_clml) + " of " + std::to_string(all) + " parts";
  if (by_clml > 0) text += " by CLML " + version;
  if (by_clml < all) text += (by_clml > 0 ? ", the others by kernels: " : " by CLML; by kernels: ") + why;
  return text;
}

}  // namespace

ClmlModule::ClmlModule(std::string symbol, std::string graph, std::vector<std::string> weights)
    : symbol_(std::move(symbol)),
      text_(std::move(graph)),
      weight_names_(std::move(weights)),
      graph_(ParseGraph(text_)) {
  if (weight_names_.size() != graph_.weights.size()) {
    TVM_FFI_THROW(ValueError) << "CLML: '" << symbol_ << "' names " << weight_names_.size()
                              << " weights, its graph has " << graph_.weights.size();
  }
  std::lock_guard<std::mutex> lock(Loaded().mutex);
  Loaded().all.insert(this);
}

ClmlModule::~ClmlModule() {
  std::lock_guard<std::mutex> lock(Loaded().mutex);
  Loaded().all.erase(this);
}

int ClmlModule::GetPropertyMask() const { return ffi::Module::kBinarySerializable | ffi::Module::kRunnable; }

ffi::Optional<ffi::Function> ClmlModule::GetFunction(const ffi::String& name) {
  const ffi::ObjectPtr<ffi::Object> self = ffi::GetObjectPtr<ffi::Object>(this);
  if (name == symbol_) {
    return ffi::Function::FromPacked([self, this](ffi::PackedArgs args, ffi::Any*) { Run(args); });
  }
  if (name == symbol_ + kReady) {
    return ffi::Function::FromPacked([self, this](ffi::PackedArgs args, ffi::Any* rv) { *rv = IsReady(args); });
  }
  return std::nullopt;
}

ffi::Bytes ClmlModule::SaveToBytes() const {
  BytesWriter writer;
  writer.Write(symbol_);
  writer.Write(text_);
  writer.Write(weight_names_);
  return ffi::Bytes(writer.Take());
}

ffi::String ClmlModule::InspectSource(const ffi::String& format) const {
  return format.empty() || format == "json" ? ffi::String(text_) : ffi::String();
}

ffi::Module ClmlModule::LoadFromBytes(const ffi::Bytes& bytes) {
  BytesReader reader(bytes.data(), bytes.size());
  std::string symbol, graph;
  std::vector<std::string> weights;
  if (!reader.Read(&symbol) || !reader.Read(&graph) || !reader.Read(&weights)) {
    TVM_FFI_THROW(ValueError) << "CLML: this module is damaged: its data ends too early";
  }
  return ffi::Module(ffi::make_object<ClmlModule>(std::move(symbol), std::move(graph), std::move(weights)));
}

std::vector<ClmlModule::State> ClmlModule::States() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<State> states;
  for (const auto& [device, made] : made_) states.push_back(made.state);
  return states;
}

bool ClmlModule::IsReady(ffi::PackedArgs args) {
  const size_t inputs = graph_.inputs.size(), weights = graph_.weights.size();
  if (static_cast<size_t>(args.size()) != inputs + weights || inputs == 0) {
    TVM_FFI_THROW(TypeError) << "CLML: '" << symbol_ << "' takes " << inputs << " inputs and " << weights
                             << " weights, and got " << args.size() << " in all";
  }
  const auto first = args[0].cast<ffi::Tensor>();
  if (first.device().device_type != kDLOpenCL) {
    TVM_FFI_THROW(ValueError) << "CLML: '" << symbol_ << "' takes tensors on an OpenCL device only";
  }
  opencl::Device* device = &MemoryOf(first)->device();
  std::lock_guard<std::mutex> lock(mutex_);
  Made& made = made_[device];
  const bool is_first = made.state.version.empty() && made.state.why.empty();
  bool are_same = made.weights.size() == weights;
  for (size_t i = 0; are_same && i < weights; ++i) {
    are_same = made.weights[i].data_ptr() == args[static_cast<int>(inputs + i)].cast<ffi::Tensor>().data_ptr();
  }
  // What CLML refuses once, it refuses with any weights.
  if (is_first || (made.network != nullptr && !are_same)) Make(device, args, &made);
  return made.network != nullptr;
}

void ClmlModule::Make(opencl::Device* device, ffi::PackedArgs args, Made* made) {
  *made = Made();
  made->state.layers = graph_.CountLayers();
  std::string why;
  made->state.version = VersionOf(device, &why);
  if (!made->state.version.empty()) {
    std::vector<opencl::Memory*> memories;
    for (size_t i = 0; i < graph_.weights.size(); ++i) {
      made->weights.push_back(args[static_cast<int>(graph_.inputs.size() + i)].cast<ffi::Tensor>());
      memories.push_back(MemoryOf(made->weights.back()));
    }
    made->network = MakeNetwork(device, graph_, memories, &why);
  }
  if (made->network != nullptr) {
    made->state.bytes = made->network->bytes();
    return;
  }
  made->state.version.clear();
  made->state.why = why;
  made->weights.clear();
}

void ClmlModule::Run(ffi::PackedArgs args) {
  const size_t inputs = graph_.inputs.size(), weights = graph_.weights.size(), outputs = graph_.outputs.size();
  if (static_cast<size_t>(args.size()) != inputs + weights + outputs) {
    TVM_FFI_THROW(TypeError) << "CLML: '" << symbol_ << "' takes " << inputs + weights + outputs
                             << " arguments, and got " << args.size();
  }
  const auto memories = [&](size_t begin, size_t count) {
    std::vector<opencl::Memory*> found;
    for (size_t i = begin; i < begin + count; ++i) {
      found.push_back(MemoryOf(args[static_cast<int>(i)].cast<ffi::Tensor>()));
    }
    return found;
  };
  const std::vector<opencl::Memory*> read = memories(0, inputs), written = memories(inputs + weights, outputs);
  std::lock_guard<std::mutex> lock(mutex_);
  const auto made = made_.find(&written[0]->device());
  if (made == made_.end() || made->second.network == nullptr) {
    TVM_FFI_THROW(RuntimeError) << "CLML: '" << symbol_ << "' is called without CLML";
  }
  made->second.network->Run(read, written);
}

TVM_FFI_STATIC_INIT_BLOCK() {
  ffi::reflection::GlobalDef()
      .def("ffi.Module.load_from_bytes.clml", ClmlModule::LoadFromBytes)
      .def("tvmake.clml.create",
           [](const ffi::String& symbol, const ffi::String& graph, const ffi::Array<ffi::String>& names) {
             std::vector<std::string> weights(names.begin(), names.end());
             return ffi::Module(
                 ffi::make_object<ClmlModule>(std::string(symbol), std::string(graph), std::move(weights)));
           })
      .def("tvmake.clml.report", [] { return ffi::String(Report()); })
      .def("tvmake.clml.summary", [] { return ffi::String(Summary()); });
}

}  // namespace clml
}  // namespace tvmake
