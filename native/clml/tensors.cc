#include "tensors.h"

#if TVMAKE_HAS_CLML

#include <algorithm>

#include "error.h"

namespace tvmake {
namespace clml {
namespace {

size_t CountOf(const Extents& extents) {
  size_t count = 1;
  for (const cl_uint extent : extents) count *= extent;
  return count;
}

cl_command_queue Theirs(opencl::cl_command_queue queue) { return reinterpret_cast<cl_command_queue>(queue); }

cl_event* Theirs(opencl::cl_event* event) { return reinterpret_cast<cl_event*>(event); }

}  // namespace

void Accept(cl_int code, const std::string& what) {
  if (code != 0) throw Refusal(what + ": " + opencl::ErrorName(code));
}

Extents ExtentsOf(const std::vector<int64_t>& shape) {
  if (shape.size() > 4) throw Refusal("a value of " + std::to_string(shape.size()) + " dimensions");
  Extents extents = {1, 1, 1, 1};
  for (size_t i = 0; i < shape.size(); ++i) extents[i] = static_cast<cl_uint>(shape[i]);
  return extents;
}

Tensors::Tensors(opencl::Device* device, const Library* library, const Graph* graph, std::vector<Step>* steps)
    : device_(device), library_(library), graph_(graph), steps_(steps) {
  for (const int node : graph->inputs) InRows(node);
}

Tensors::~Tensors() {
  if (opencl::IsForked()) return;
  for (const Tensor& tensor : tensors_) {
    if (tensor.handle != nullptr) library_->ReleaseTensor(tensor.handle);
  }
  if (nothing_ != nullptr) library_->ReleaseTensor(nothing_);
  for (const Slot& slot : slots_) {
    if (slot.memory != nullptr && !slot.is_argument) {
      opencl::GetApi().clReleaseMemObject(reinterpret_cast<opencl::cl_mem>(slot.memory));
    }
  }
}

cl_context Tensors::context() const { return reinterpret_cast<cl_context>(device_->context()); }

const Tensor* Tensors::Read(int node, Layout layout, const Extents& extents) {
  if (Tensor* found = Find(node, layout, extents)) return found;
  if (graph_->nodes[node].kind == Node::Kind::kWeight) {
    slots_.emplace_back();
    return Make(node, layout, extents, &slots_.back());
  }
  if (layout == Layout::kRows) return RowsOf(node, extents);
  const Tensor* rows = RowsOf(node, extents);
  slots_.emplace_back();
  Tensor* made = Make(node, layout, extents, &slots_.back());
  Allocate(made);
  steps_->push_back({nullptr, rows, made});
  return made;
}

const Tensor* Tensors::Write(int node, Layout layout, const Extents& extents) {
  const auto& outputs = graph_->outputs;
  const bool is_result = std::find(outputs.begin(), outputs.end(), node) != outputs.end();
  slots_.emplace_back();
  slots_.back().is_argument = is_result && layout == Layout::kRows;
  Tensor* made = Make(node, layout, extents, &slots_.back());
  if (!slots_.back().is_argument) Allocate(made);
  return made;
}

cl_ml_tensor_qcom Tensors::Nothing() {
  if (nothing_ == nullptr) {
    cl_ml_tensor_desc_qcom description = {};
    description.num_dimensions = CL_TENSOR_UNUSED_QCOM;
    Accept(library_->CreateTensor(context(), description, Usage::kNothing, &nothing_), "no tensor");
  }
  return nothing_;
}

void Tensors::Fill(int node, opencl::Memory* memory) {
  const std::vector<Tensor*>& seen = of_node_[node];
  if (seen.empty()) return;  // a weight that no layer reads
  std::vector<char> bytes(memory->bytes());
  device_->queue().Submit("cannot read a weight", [&](opencl::cl_command_queue queue, opencl::cl_event* event) {
    return opencl::GetApi().clEnqueueReadBuffer(queue, memory->handle(), opencl::CL_TRUE, 0, bytes.size(), bytes.data(),
                                                0, nullptr, event);
  });
  for (Tensor* tensor : seen) {
    Allocate(tensor);
    const cl_int code = device_->queue().TrySubmit([&](opencl::cl_command_queue queue, opencl::cl_event* event) {
      return library_->Write(Theirs(queue), bytes.data(), tensor->described(), Theirs(event));
    });
    Accept(code, "the weight " + graph_->nodes[node].name);
  }
  device_->queue().Finish();  // the bytes go away
}

Slot* Tensors::InRows(int node) {
  const Extents extents = ExtentsOf(graph_->nodes[node].shape);
  for (Tensor* tensor : of_node_[node]) {
    if (tensor->layout == Layout::kRows && tensor->slot->is_argument) return tensor->slot;
  }
  slots_.emplace_back();
  Slot* slot = &slots_.back();
  slot->is_argument = true;
  if (of_node_[node].empty()) {
    Make(node, Layout::kRows, extents, slot);
    return slot;
  }
  // What a layer wrote in the library's layout is copied into the argument.
  const Tensor* from = of_node_[node].front();
  steps_->push_back({nullptr, from, Make(node, Layout::kRows, from->extents, slot)});
  return slot;
}

Tensor* Tensors::Make(int node, Layout layout, const Extents& extents, Slot* slot) {
  const Node& of = graph_->nodes[node];
  size_t count = 1;
  for (const int64_t extent : of.shape) count *= static_cast<size_t>(extent);
  if (CountOf(extents) != count) throw Refusal("'" + of.name + "' has another number of elements");
  cl_ml_tensor_desc_qcom description = {};
  description.data_type = TypeOf(node);
  description.layout = layout == Layout::kRows ? CL_TENSOR_LAYOUT_NCHW_QCOM : CL_TENSOR_LAYOUT_OPTIMAL_QCOM;
  description.n = extents[0];
  description.c = extents[1];
  description.h = extents[2];
  description.w = extents[3];
  description.num_dimensions = CL_TENSOR_DIMENSIONS_4D_QCOM;
  tensors_.emplace_back();
  Tensor* tensor = &tensors_.back();
  tensor->layout = layout;
  tensor->extents = extents;
  tensor->slot = slot;
  const Usage usage = of.kind == Node::Kind::kWeight ? Usage::kWeight : Usage::kValue;
  Accept(library_->CreateTensor(context(), description, usage, &tensor->handle), "the tensor of '" + of.name + "'");
  of_node_[node].push_back(tensor);
  return tensor;
}

Tensor* Tensors::Find(int node, Layout layout, const Extents& extents) {
  for (Tensor* tensor : of_node_[node]) {
    if (tensor->layout == layout && tensor->extents == extents) return tensor;
  }
  return nullptr;
}

// In rows, values lie the same whatever the extents.
Tensor* Tensors::RowsOf(int node, const Extents& extents) {
  if (Tensor* found = Find(node, Layout::kRows, extents)) return found;
  for (Tensor* tensor : of_node_[node]) {
    if (tensor->layout == Layout::kRows) return Make(node, Layout::kRows, extents, tensor->slot);
  }
  const Tensor* from = of_node_[node].front();
  slots_.emplace_back();
  Tensor* rows = Make(node, Layout::kRows, from->extents, &slots_.back());
  Allocate(rows);
  steps_->push_back({nullptr, from, rows});
  return from->extents == extents ? rows : Make(node, Layout::kRows, extents, rows->slot);
}

void Tensors::Allocate(Tensor* tensor) {
  if (tensor->slot->memory != nullptr) return;
  cl_uint bytes = 0;
  Accept(library_->TensorBytes(context(), tensor->handle, &bytes), "the size of a tensor");
  tensor->slot->memory =
      reinterpret_cast<cl_mem>(device_->Allocate(bytes, "a tensor of CLML", [&](opencl::cl_int* code) {
        return opencl::GetApi().clCreateBuffer(device_->context(), opencl::CL_MEM_READ_WRITE,
                                               std::max<size_t>(bytes, 1), nullptr, code);
      }));
  bytes_ += bytes;
}

cl_channel_type Tensors::TypeOf(int node) const {
  const std::string& dtype = graph_->nodes[node].dtype;
  if (dtype == "float32") return CL_FLOAT;
  if (dtype == "float16") return CL_HALF_FLOAT;
  throw Refusal("'" + graph_->nodes[node].name + "' is " + dtype);
}

}  // namespace clml
}  // namespace tvmake

#endif  // TVMAKE_HAS_CLML
