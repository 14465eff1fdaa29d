#include "inputs.h"

#include <cstring>
#include <memory>
#include <random>

#include "errors.h"
#include "extents.h"
#include "half.h"
#include "npz.h"
#include "virtual_machine.h"

namespace tvmake {
namespace {

template <typename Value>
void Store(Tensor* tensor, std::size_t index, Value value) {
  std::memcpy(tensor->data.data() + index * sizeof value, &value, sizeof value);
}

std::vector<int64_t> ShapeOf(const TensorSpec& spec, const Options& options) {
  std::vector<int64_t> shape = spec.shape;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] != kDynamic) continue;
    const auto given = options.extents.find(spec.names[axis]);
    if (given == options.extents.end()) {
      RefuseInput("inputs", "input '" + spec.name + "' has the dynamic dimension '" + spec.names[axis] + "'",
                  "give --dim " + spec.names[axis] + "=N, or --inputs");
    }
    shape[axis] = given->second;
  }
  return shape;
}

Tensor Generate(const TensorSpec& spec, const Options& options, std::mt19937_64* random) {
  Tensor tensor{spec.dtype, ShapeOf(spec, options), {}};
  tensor.data.assign(BytesOf(tensor.dtype, tensor.shape), 0);
  std::size_t count = 1;
  for (const int64_t extent : tensor.shape) count *= static_cast<std::size_t>(extent);
  const bool is_float = spec.dtype.find("float") != std::string::npos;
  const double low = spec.has_range ? spec.low : is_float ? -1 : 0, high = spec.has_range ? spec.high : 1;
  // Not std::uniform_real_distribution, which differs between standard libraries.
  const auto next = [&] { return static_cast<double>((*random)() >> 11) * 0x1p-53; };
  for (std::size_t index = 0; index < count; ++index) {
    const double share = next();
    const double real = low + (high - low) * share;
    const auto whole = static_cast<int64_t>(low) + static_cast<int64_t>((high - low + 1) * share);
    if (spec.dtype == "float32") Store(&tensor, index, static_cast<float>(real));
    else if (spec.dtype == "float64") Store(&tensor, index, real);
    else if (spec.dtype == "float16") Store(&tensor, index, ToHalf(real));
    else if (spec.dtype == "int64" || spec.dtype == "uint64") Store(&tensor, index, whole);
    else if (spec.dtype == "int32" || spec.dtype == "uint32") Store(&tensor, index, static_cast<int32_t>(whole));
    else if (spec.dtype == "int16" || spec.dtype == "uint16") Store(&tensor, index, static_cast<int16_t>(whole));
    else if (spec.dtype == "int8" || spec.dtype == "uint8") Store(&tensor, index, static_cast<int8_t>(whole));
    else if (spec.dtype == "bool") Store(&tensor, index, static_cast<uint8_t>(whole & 1));
    // Zeros are fine for the rest.
  }
  return tensor;
}

InputSource OpenUncheckedInputs(const Manifest& manifest, const Options& options) {
  if (options.inputs.empty()) {
    return [&manifest, &options](int64_t sample) {
      std::mt19937_64 random(static_cast<uint64_t>(sample));
      std::vector<Tensor> values;
      for (const TensorSpec& spec : manifest.inputs) values.push_back(Generate(spec, options, &random));
      return values;
    };
  }
  const auto archive = std::make_shared<NpzReader>(options.inputs);
  return [&manifest, archive](int64_t sample) {
    std::vector<Tensor> values;
    for (const TensorSpec& spec : manifest.inputs) {
      const std::string member = MemberName("input", spec.name, sample);
      if (!archive->Has(member)) {
        RefuseInput("inputs", "sample " + std::to_string(sample) + " lacks input '" + spec.name + "'");
      }
      values.push_back(archive->Read(member, spec.dtype));
      CheckFits(spec, values.back().dtype, values.back().shape);
    }
    return values;
  };
}

}  // namespace

InputSource OpenInputs(const Manifest& manifest, const Options& options) {
  return [&manifest, open = OpenUncheckedInputs(manifest, options)](int64_t sample) {
    std::vector<Tensor> values = open(sample);
    std::vector<std::vector<int64_t>> shapes;
    for (const Tensor& value : values) shapes.push_back(value.shape);
    CheckExtents(manifest, shapes);
    return values;
  };
}

}  // namespace tvmake
