// The values of a graph as tensors of Qualcomm's library.
#pragma once

#include "library.h"

#if TVMAKE_HAS_CLML

#include <array>
#include <deque>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "graph.h"
#include "memory.h"

namespace tvmake {
namespace clml {

/// Why CLML cannot compute a graph; what() goes to the user.
class Refusal : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws Refusal `<what>: <name of the code>` unless it is 0.
void Accept(cl_int code, const std::string& what);

/// Extents n, c, h, w.
using Extents = std::array<cl_uint, 4>;

/// A shape with ones behind it. Throws Refusal for more than four extents.
Extents ExtentsOf(const std::vector<int64_t>& shape);

/// The order of values in memory: in rows, as TVM has them, or as the library wants them.
enum class Layout { kRows, kOptimal };

/// Memory of one value, which several tensors may see. That of arguments changes from run to run.
struct Slot {
  cl_mem memory = nullptr;
  bool is_argument = false;
};

struct Tensor {
  cl_ml_tensor_qcom handle = nullptr;
  Layout layout = Layout::kRows;
  Extents extents = {1, 1, 1, 1};
  Slot* slot = nullptr;

  cl_ml_tensor_memory_desc_qcom described() const { return {handle, slot->memory}; }
};

/// What is submitted in a run: a layer, or a copy between layouts.
struct Step {
  cl_ml_op_qcom op = nullptr;
  const Tensor* from = nullptr;
  const Tensor* to = nullptr;
};

/// Makes tensors as layers want them, and the copies between those that hold the same value.
class Tensors {
 public:
  Tensors(opencl::Device* device, const Library* library, const Graph* graph, std::vector<Step>* steps);
  ~Tensors();
  Tensors(const Tensors&) = delete;
  Tensors& operator=(const Tensors&) = delete;

  cl_context context() const;

  /// A node's value with these extents, which have as many elements as its shape.
  const Tensor* Read(int node, Layout layout, const Extents& extents);
  /// The tensor that a layer is to write its value into; to be asked for before the layer is made.
  const Tensor* Write(int node, Layout layout, const Extents& extents);
  /// A placeholder for an optional tensor of a layer.
  cl_ml_tensor_qcom Nothing();

  /// Gives weights their memory and their values.
  void Fill(int node, opencl::Memory* memory);
  /// The slot for the memory of an argument or a result in rows; each run sets it.
  Slot* InRows(int node);

  /// All tensors that layers see.
  const std::deque<Tensor>& all() const { return tensors_; }
  size_t bytes() const { return bytes_; }

 private:
  Tensor* Make(int node, Layout layout, const Extents& extents, Slot* slot);
  Tensor* Find(int node, Layout layout, const Extents& extents);
  Tensor* RowsOf(int node, const Extents& extents);
  void Allocate(Tensor* tensor);
  cl_channel_type TypeOf(int node) const;

  opencl::Device* device_;
  const Library* library_;
  const Graph* graph_;
  std::vector<Step>* steps_;
  std::deque<Tensor> tensors_;  // none moves
  std::deque<Slot> slots_;
  std::map<int, std::vector<Tensor*>> of_node_;
  cl_ml_tensor_qcom nothing_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace clml
}  // namespace tvmake

#endif  // TVMAKE_HAS_CLML
