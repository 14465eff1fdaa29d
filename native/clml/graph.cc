#include "graph.h"

#include <tvm/ffi/error.h>

#include <algorithm>

namespace tvmake {
namespace clml {
namespace {

namespace json = tvm::ffi::json;
using tvm::ffi::Any;
using tvm::ffi::String;

Any Attribute(const Node& node, const char* key) {
  const auto found = node.attributes.find(String(key));
  if (found == node.attributes.end()) {
    TVM_FFI_THROW(ValueError) << "CLML: the layer '" << node.name << "' lacks the attribute '" << key << "'";
  }
  return (*found).second;
}

template <typename Value>
Value As(const Node& node, const char* key, const Any& value) {
  auto found = value.try_cast<Value>();
  if (!found.has_value()) {
    TVM_FFI_THROW(ValueError) << "CLML: the attribute '" << key << "' of '" << node.name << "' has another type";
  }
  return *found;
}

template <typename Value>
Value Member(const json::Object& object, const char* key) {
  const auto found = object.find(String(key));
  if (found == object.end()) TVM_FFI_THROW(ValueError) << "CLML: a graph without '" << key << "'";
  auto value = (*found).second.try_cast<Value>();
  if (!value.has_value()) TVM_FFI_THROW(ValueError) << "CLML: a graph whose '" << key << "' has another type";
  return *value;
}

std::vector<int> Indices(const json::Array& entries, size_t end) {
  std::vector<int> indices;
  for (const Any& entry : entries) {
    // Entries of inputs are [node, output, version]; those of arguments, plain numbers.
    auto list = entry.try_cast<json::Array>();
    auto index = list.has_value() && !list->empty() ? (*list)[0].try_cast<int64_t>() : entry.try_cast<int64_t>();
    if (!index.has_value() || *index < 0 || static_cast<size_t>(*index) >= end) {
      TVM_FFI_THROW(ValueError) << "CLML: a graph that names a node which is not there";
    }
    indices.push_back(static_cast<int>(*index));
  }
  return indices;
}

Node ParseNode(const json::Object& row, size_t index) {
  Node node;
  node.name = Member<String>(row, "name");
  const std::string op = Member<String>(row, "op");
  if (op == "input") node.kind = Node::Kind::kInput;
  else if (op == "const") node.kind = Node::Kind::kWeight;
  else if (op == "kernel") node.kind = Node::Kind::kLayer;
  else TVM_FFI_THROW(ValueError) << "CLML: a node of the kind '" << op << "'";
  node.attributes = Member<json::Object>(row, "attrs");
  const auto shapes = Member<json::Array>(node.attributes, "shape");
  const auto dtypes = Member<json::Array>(node.attributes, "dtype");
  if (shapes.size() != 1 || dtypes.size() != 1) {
    TVM_FFI_THROW(ValueError) << "CLML: the node '" << node.name << "' has other than one value";
  }
  for (const Any& extent : As<json::Array>(node, "shape", shapes[0])) {
    node.shape.push_back(As<int64_t>(node, "shape", extent));
    if (node.shape.back() < 1) TVM_FFI_THROW(ValueError) << "CLML: '" << node.name << "' has an open shape";
  }
  node.dtype = As<String>(node, "dtype", dtypes[0]);
  if (node.kind == Node::Kind::kLayer) node.inputs = Indices(Member<json::Array>(row, "inputs"), index);
  return node;
}

}  // namespace

int64_t Node::Int(const char* key) const { return As<int64_t>(*this, key, Attribute(*this, key)); }

double Node::Number(const char* key) const { return As<double>(*this, key, Attribute(*this, key)); }

std::vector<int64_t> Node::Ints(const char* key) const {
  std::vector<int64_t> values;
  for (const Any& value : As<json::Array>(*this, key, Attribute(*this, key))) {
    values.push_back(As<int64_t>(*this, key, value));
  }
  return values;
}

std::string Node::Text(const char* key) const { return As<String>(*this, key, Attribute(*this, key)); }

bool Node::Has(const char* key) const { return attributes.find(String(key)) != attributes.end(); }

bool Node::Is(const std::string& layer) const {
  if (name.size() < layer.size() || name.compare(name.size() - layer.size(), layer.size(), layer) != 0) return false;
  return name.size() == layer.size() || name[name.size() - layer.size() - 1] == '.';
}

size_t Graph::CountLayers() const {
  return static_cast<size_t>(
      std::count_if(nodes.begin(), nodes.end(), [](const Node& node) { return node.kind == Node::Kind::kLayer; }));
}

Graph ParseGraph(const std::string& text) {
  String error;
  const Any value = json::Parse(text, &error);
  const auto root = value.try_cast<json::Object>();
  if (!root.has_value()) TVM_FFI_THROW(ValueError) << "CLML: the graph is not a JSON object";
  Graph graph;
  const auto rows = Member<json::Array>(*root, "nodes");
  for (const Any& row : rows) {
    const auto object = row.try_cast<json::Object>();
    if (!object.has_value()) TVM_FFI_THROW(ValueError) << "CLML: a node of the graph is not an object";
    graph.nodes.push_back(ParseNode(*object, graph.nodes.size()));
  }
  for (const int index : Indices(Member<json::Array>(*root, "arg_nodes"), graph.nodes.size())) {
    const Node::Kind kind = graph.nodes[index].kind;
    if (kind == Node::Kind::kLayer || (kind == Node::Kind::kInput && !graph.weights.empty())) {
      TVM_FFI_THROW(ValueError) << "CLML: a graph whose arguments are not its inputs, then its weights";
    }
    (kind == Node::Kind::kInput ? graph.inputs : graph.weights).push_back(index);
  }
  graph.outputs = Indices(Member<json::Array>(*root, "heads"), graph.nodes.size());
  for (const int index : graph.outputs) {
    if (graph.nodes[index].kind != Node::Kind::kLayer) {
      TVM_FFI_THROW(ValueError) << "CLML: a graph that gives back '" << graph.nodes[index].name
                                << "', which no layer computes";
    }
  }
  if (graph.outputs.empty()) TVM_FFI_THROW(ValueError) << "CLML: a graph without results";
  return graph;
}

}  // namespace clml
}  // namespace tvmake
