#include "graph.h"

#include <doctest/doctest.h>
#include <tvm/ffi/error.h>

#include <string>

#include "../../clml/module.h"  // opencl/ has one of the same name

using namespace tvmake::clml;

namespace {

const std::string kInput = R"({"op":"input","name":"x","attrs":{"shape":[[1,2]],"dtype":["float32"]}})";
const std::string kWeight = R"({"op":"const","name":"w","attrs":{"shape":[[2,3]],"dtype":["float32"]}})";
const std::string kLayer =
    R"({"op":"kernel","name":"openclml.bias.nn.dense","inputs":[[0,0,0],[1,0,0]],)"
    R"("attrs":{"shape":[[1,3]],"dtype":["float32"],"axis":1,"epsilon":0.5,"strides":[2,1],"kind":"x"}})";

std::string GraphOf(const std::string& nodes, const std::string& arguments = "[0,1]",
                    const std::string& heads = "[[2,0,0]]") {
  return "{\"nodes\":[" + nodes + "],\"arg_nodes\":" + arguments + ",\"heads\":" + heads + "}";
}

std::string Whole() { return GraphOf(kInput + "," + kWeight + "," + kLayer); }

}  // namespace

TEST_CASE("a graph is read with its arguments, results and attributes") {
  const Graph graph = ParseGraph(Whole());
  CHECK(graph.inputs == std::vector<int>{0});
  CHECK(graph.weights == std::vector<int>{1});
  CHECK(graph.outputs == std::vector<int>{2});
  CHECK(graph.CountLayers() == 1);
  const Node& layer = graph.nodes[2];
  CHECK(layer.inputs == std::vector<int>{0, 1});
  CHECK(layer.shape == std::vector<int64_t>{1, 3});
  CHECK(layer.Int("axis") == 1);
  CHECK(layer.Number("epsilon") == 0.5);
  CHECK(layer.Ints("strides") == std::vector<int64_t>{2, 1});
  CHECK(layer.Text("kind") == "x");
  CHECK_FALSE(layer.Has("groups"));
}

TEST_CASE("a layer's kind is the last words of its name") {
  const Node layer = ParseGraph(Whole()).nodes[2];
  CHECK(layer.Is("nn.dense"));
  CHECK(layer.Is("bias.nn.dense"));
  CHECK_FALSE(layer.Is("ense"));
  CHECK_FALSE(layer.Is("nn.conv2d"));
}

TEST_CASE("an attribute that is missing or has another type is named with its layer") {
  const Node layer = ParseGraph(Whole()).nodes[2];
  CHECK_THROWS_WITH_AS(layer.Int("groups"), doctest::Contains("'groups'"), tvm::ffi::Error);
  CHECK_THROWS_WITH_AS(layer.Ints("kind"), doctest::Contains("openclml.bias.nn.dense"), tvm::ffi::Error);
}

TEST_CASE("input that is not a graph is refused") {
  for (const std::string& text : {std::string("{"), std::string("[]"), std::string("{\"nodes\":[]}"), GraphOf(kInput),
                                  GraphOf(kInput + "," + kWeight + "," + kLayer, "[0,7]"),
                                  GraphOf(kInput + "," + kWeight + "," + kLayer, "[1,0]"),
                                  GraphOf(kInput + "," + kWeight + "," + kLayer, "[0,1]", "[[0,0,0]]"),
                                  GraphOf(kInput + "," + kWeight + "," + kLayer, "[0,1]", "[]"),
                                  GraphOf(kLayer + "," + kInput + "," + kWeight)}) {
    CAPTURE(text);
    CHECK_THROWS_AS(ParseGraph(text), tvm::ffi::Error);
  }
}

TEST_CASE("a module's bytes are symbol, graph and names of weights, and read back") {
  const ClmlModule module("part", Whole(), {"w"});
  const tvm::ffi::Bytes bytes = module.SaveToBytes();
  const tvm::ffi::Module read = ClmlModule::LoadFromBytes(bytes);
  CHECK(std::string(read->kind()) == "clml");
  CHECK(read->InspectSource("") == tvm::ffi::String(Whole()));
  const tvm::ffi::Bytes cut(bytes.data(), bytes.size() - 1);
  CHECK_THROWS_WITH_AS(ClmlModule::LoadFromBytes(cut), doctest::Contains("damaged"), tvm::ffi::Error);
  CHECK_THROWS_WITH_AS(ClmlModule("part", Whole(), {}), doctest::Contains("0 weights"), tvm::ffi::Error);
}
