#include "network.h"

#include "library.h"

#if TVMAKE_HAS_CLML
#include <tvm/ffi/error.h>

#include "layers.h"
#include "tensors.h"
#endif

namespace tvmake {
namespace clml {

#if TVMAKE_HAS_CLML

namespace {

class MadeNetwork final : public Network {
 public:
  MadeNetwork(opencl::Device* device, const Library* library, const Graph& graph,
              const std::vector<opencl::Memory*>& weights)
      : device_(device), library_(library), tensors_(device, library, &graph, &steps_) {
    try {
      Make(graph, weights);
    } catch (...) {
      Release();
      throw;
    }
  }

  ~MadeNetwork() final { Release(); }

  void Run(const std::vector<opencl::Memory*>& inputs, const std::vector<opencl::Memory*>& outputs) final {
    bool is_other = Put(inputs, inputs_);
    is_other = Put(outputs, outputs_) || is_other;
    if (is_other) Describe();
    for (const Step& step : steps_) {
      device_->queue().Submit("a layer of CLML", [&](opencl::cl_command_queue ours, opencl::cl_event* event) {
        const auto queue = reinterpret_cast<cl_command_queue>(ours);
        const auto done = reinterpret_cast<cl_event*>(event);
        return step.op != nullptr ? library_->Enqueue(queue, step.op, set_, done)
                                  : library_->Copy(queue, step.from->described(), step.to->described(), done);
      });
    }
  }

  size_t bytes() const final { return tensors_.bytes(); }

 private:
  void Make(const Graph& graph, const std::vector<opencl::Memory*>& weights) {
    for (size_t node = 0; node < graph.nodes.size(); ++node) {
      if (graph.nodes[node].kind != Node::Kind::kLayer) continue;
      Step step;
      step.op = MakeLayer(*library_, graph, static_cast<int>(node), &tensors_);
      steps_.push_back(step);
    }
    for (const int node : graph.inputs) inputs_.push_back(tensors_.InRows(node));
    for (const int node : graph.outputs) outputs_.push_back(tensors_.InRows(node));
    for (size_t i = 0; i < weights.size(); ++i) tensors_.Fill(graph.weights[i], weights[i]);
    Accept(library_->CreateSet(&set_), "a set of tensors");
  }

  static bool Put(const std::vector<opencl::Memory*>& given, const std::vector<Slot*>& slots) {
    bool is_other = false;
    for (size_t i = 0; i < given.size(); ++i) {
      const auto memory = reinterpret_cast<cl_mem>(given[i]->handle());
      is_other = is_other || slots[i]->memory != memory;
      slots[i]->memory = memory;
    }
    return is_other;
  }

  void Describe() {
    std::vector<cl_ml_tensor_memory_desc_qcom> described;
    for (const Tensor& tensor : tensors_.all()) described.push_back(tensor.described());
    opencl::Check(library_->UpdateSet(set_, static_cast<cl_uint>(described.size()), described.data()),
                  "the memory of CLML's tensors");
  }

  void Release() {
    if (opencl::IsForked()) return;
    for (const Step& step : steps_) {
      if (step.op != nullptr) library_->ReleaseOp(step.op);
    }
    if (set_ != nullptr) library_->ReleaseSet(set_);
  }

  opencl::Device* device_;
  const Library* library_;
  std::vector<Step> steps_;
  Tensors tensors_;
  std::vector<Slot*> inputs_;
  std::vector<Slot*> outputs_;
  cl_ml_tensor_mem_desc_set_qcom set_ = nullptr;
};

}  // namespace

std::string VersionOf(opencl::Device* device, std::string* why) {
  const Library* library = FindLibrary(device, why);
  return library == nullptr ? std::string() : library->version();
}

std::unique_ptr<Network> MakeNetwork(opencl::Device* device, const Graph& graph,
                                     const std::vector<opencl::Memory*>& weights, std::string* why) {
  const Library* library = FindLibrary(device, why);
  if (library == nullptr) return nullptr;
  try {
    return std::make_unique<MadeNetwork>(device, library, graph, weights);
  } catch (const Refusal& refusal) {
    *why = "CLML " + library->version() + " refuses " + refusal.what();
    return nullptr;
  }
}

#else

std::string VersionOf(opencl::Device*, std::string* why) {
  *why = "this program was compiled without the header of Qualcomm's OpenCL ML SDK";
  return std::string();
}

std::unique_ptr<Network> MakeNetwork(opencl::Device* device, const Graph&, const std::vector<opencl::Memory*>&,
                                     std::string* why) {
  VersionOf(device, why);
  return nullptr;
}

#endif  // TVMAKE_HAS_CLML

}  // namespace clml
}  // namespace tvmake
