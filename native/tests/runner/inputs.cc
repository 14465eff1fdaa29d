#include "inputs.h"

#include <doctest/doctest.h>

#include <cstring>

#include "npz.h"
#include "temporary_directory.h"

using namespace tvmake;
using namespace tvmake::testing;

namespace {

Manifest OneInput(const std::string& dtype, std::vector<int64_t> shape = {1000}) {
  Manifest manifest;
  TensorSpec spec;
  spec.name = "x";
  spec.dtype = dtype;
  for (const int64_t extent : shape) spec.names.push_back(extent == kDynamic ? "n" : "");
  spec.shape = std::move(shape);
  manifest.inputs = {spec};
  return manifest;
}

template <typename Value>
std::vector<Value> Values(const Tensor& tensor) {
  std::vector<Value> values(tensor.data.size() / sizeof(Value));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

}  // namespace

TEST_CASE("generated inputs are the same for the same sample, and differ between samples") {
  const Manifest manifest = OneInput("float32");
  const Options options;
  const InputSource inputs = OpenInputs(manifest, options);
  CHECK(inputs(0)[0].data == OpenInputs(manifest, options)(0)[0].data);
  CHECK(inputs(0)[0].data != inputs(1)[0].data);
}

TEST_CASE("generated inputs lie within the range that the package gives") {
  Manifest manifest = OneInput("float32");
  const Options options;
  for (const float value : Values<float>(OpenInputs(manifest, options)(0)[0])) CHECK((value >= -1 && value <= 1));
  manifest.inputs[0].has_range = true;
  manifest.inputs[0].low = 10;
  manifest.inputs[0].high = 12;
  for (const float value : Values<float>(OpenInputs(manifest, options)(0)[0])) CHECK((value >= 10 && value <= 12));
  manifest.inputs[0].dtype = "int8";
  bool has_high = false;
  for (const int8_t value : Values<int8_t>(OpenInputs(manifest, options)(0)[0])) {
    CHECK((value >= 10 && value <= 12));
    has_high |= value == 12;
  }
  CHECK(has_high);
}

TEST_CASE("a dynamic dimension has to be given") {
  const Manifest manifest = OneInput("uint8", {kDynamic, 2});
  Options options;
  CHECK_THROWS_WITH_AS(OpenInputs(manifest, options)(0),
                       "inputs: input 'x' has the dynamic dimension 'n'\n  give --dim n=N, or --inputs", Error);
  options.extents["n"] = 5;
  CHECK(OpenInputs(manifest, options)(0)[0].shape == std::vector<int64_t>{5, 2});
  options.extents["n"] = int64_t{1} << 60;
  CHECK_THROWS_AS(OpenInputs(manifest, options)(0), Error);
}

TEST_CASE("inputs from a file have to fit the package") {
  const TemporaryDirectory directory;
  Options options;
  options.inputs = directory / "in.npz";
  {
    NpzWriter writer(options.inputs);
    writer.Add("input/x/00000.npy", Tensor{"uint8", {2}, {1, 2}});
    writer.Add("input/x/00001.npy", Tensor{"uint8", {3}, {1, 2, 3}});
    writer.Finish();
  }
  const Manifest manifest = OneInput("uint8", {2});
  const InputSource inputs = OpenInputs(manifest, options);
  CHECK(inputs(0)[0].data == std::vector<uint8_t>{1, 2});
  CHECK_THROWS_WITH_AS(inputs(1), "inputs: input 'x' is uint8[3], the package takes uint8[2]", Error);
  CHECK_THROWS_WITH_AS(inputs(2), "inputs: sample 2 lacks input 'x'", Error);
}
