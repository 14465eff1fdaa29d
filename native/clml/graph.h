// The layers that CLML is to compute, as the code generator wrote them down.
#pragma once

#include <tvm/ffi/extra/json.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tvmake {
namespace clml {

/// A value of the graph: an argument, a weight, or what a layer computes.
struct Node {
  enum class Kind { kInput, kWeight, kLayer };

  Kind kind = Kind::kInput;
  std::string name;  // of a layer: what was matched, such as "openclml.relu.bias.nn.conv2d"
  std::vector<int> inputs;
  std::vector<int64_t> shape;
  std::string dtype;
  tvm::ffi::json::Object attributes;

  /// These throw ValueError with the node's name if the attribute is missing or has another type.
  int64_t Int(const char* key) const;
  double Number(const char* key) const;
  std::vector<int64_t> Ints(const char* key) const;
  std::string Text(const char* key) const;
  bool Has(const char* key) const;

  /// Whether `name` ends with it, as a word of its own.
  bool Is(const std::string& layer) const;
};

/// Nodes in the order in which they are computed.
struct Graph {
  std::vector<Node> nodes;
  std::vector<int> inputs;   // the arguments that differ from run to run, in order
  std::vector<int> weights;  // those that stay, which follow them
  std::vector<int> outputs;

  size_t CountLayers() const;
};

/// Reads TVM's JSON form of a graph. Throws ValueError when it is none, or has values that no layer computes.
Graph ParseGraph(const std::string& text);

}  // namespace clml
}  // namespace tvmake
