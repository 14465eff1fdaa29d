#include "states.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "errors.h"
#include "extents.h"

namespace tvmake {
namespace {

int64_t LeastOf(const Manifest& manifest, const std::string& dimension, int64_t otherwise) {
  const auto found = manifest.bounds.find(dimension);
  return found == manifest.bounds.end() ? otherwise : found->second.least;
}

Sizes SizesOf(const Manifest& manifest, const std::vector<std::vector<int64_t>>& inputs) {
  Sizes sizes;
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    const TensorSpec& spec = manifest.inputs[index];
    for (std::size_t axis = 0; axis < inputs[index].size(); ++axis) {
      if (spec.shape[axis] == kDynamic) sizes[spec.names[axis]] = inputs[index][axis];
    }
  }
  return sizes;
}

// The size of a dynamic dimension: that of the inputs; else the smallest if it changes from run to run, as a cache's
// length does, and 1 if not, as a batch.
int64_t SizeOf(const Manifest& manifest, const Sizes& sizes, const std::string& extent, bool changes) {
  if (const auto found = sizes.find(extent); found != sizes.end()) return found->second;
  if (!IsArithmetic(extent)) {
    return changes ? LeastOf(manifest, extent, 0) : std::max<int64_t>(1, LeastOf(manifest, extent, 1));
  }
  return EvaluateExtent(extent, [&](const std::string& name) {
    const auto found = sizes.find(name);
    return found == sizes.end() ? LeastOf(manifest, name, 0) : found->second;
  });
}

}  // namespace

std::vector<std::vector<int64_t>> InitialShapes(const Manifest& manifest,
                                                const std::vector<std::vector<int64_t>>& inputs) {
  const Sizes sizes = SizesOf(manifest, inputs);
  std::vector<std::vector<int64_t>> shapes;
  for (std::size_t index = 0; index < manifest.states.size(); ++index) {
    const TensorSpec &state = manifest.states[index], &next = manifest.next_states[index];
    std::vector<int64_t>& shape = shapes.emplace_back(state.shape);
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis] != kDynamic) continue;
      const std::string& extent = state.names[axis];
      const bool changes = axis >= next.names.size() || next.names[axis] != extent;
      try {
        shape[axis] = SizeOf(manifest, sizes, extent, changes);
      } catch (const std::invalid_argument&) {
        RefuseInput("states", "the size '" + extent + "' of state '" + state.name + "' is unknown to this program");
      }
    }
  }
  return shapes;
}

}  // namespace tvmake
