#include "extents.h"

#include <map>
#include <string>
#include <utility>

#include "errors.h"

namespace tvmake {
namespace {

std::string Described(const Bounds& bounds) {
  const std::string least = std::to_string(bounds.least);
  if (!bounds.most) return least + " or more";
  return *bounds.most == bounds.least ? least : least + " to " + std::to_string(*bounds.most);
}

std::string Described(const Sizes& sizes) {
  std::string text;
  for (const auto& [name, size] : sizes) text += (text.empty() ? "" : ", ") + name + ": " + std::to_string(size);
  return "{" + text + "}";
}

// Throws Error if the sizes are none of the package's shapes.
void CheckShapes(const Manifest& manifest, const std::map<std::string, std::pair<int64_t, std::string>>& known) {
  if (manifest.shapes.empty()) return;
  Sizes given;
  std::string taken;
  for (const Sizes& shape : manifest.shapes) {
    bool fits = true;
    for (const auto& [name, size] : shape) {
      const auto found = known.find(name);
      if (found == known.end()) continue;
      given[name] = found->second.first;
      fits = fits && found->second.first == size;
    }
    if (fits) return;
    taken += (taken.empty() ? "" : ", ") + Described(shape);
  }
  RefuseInput("inputs", Described(given) + " is none of this package's shapes: " + taken, "give inputs of such sizes");
}

}  // namespace

void CheckBounds(const Manifest& manifest, const TensorSpec& input, const std::vector<int64_t>& shape) {
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const auto found = manifest.bounds.find(input.names[axis]);
    if (input.shape[axis] != kDynamic || found == manifest.bounds.end()) continue;
    const Bounds& bounds = found->second;
    if (shape[axis] < bounds.least || (bounds.most && shape[axis] > *bounds.most)) {
      RefuseInput("inputs", found->first + " is " + std::to_string(shape[axis]) + " in '" + input.name +
                                "'; this package takes " + Described(bounds));
    }
  }
}

void CheckExtents(const Manifest& manifest, const std::vector<std::vector<int64_t>>& shapes) {
  std::map<std::string, std::pair<int64_t, std::string>> known;  // sizes, and the inputs that have them
  for (std::size_t index = 0; index < shapes.size(); ++index) {
    const TensorSpec& input = manifest.inputs[index];
    const std::vector<int64_t>& shape = shapes[index];
    CheckBounds(manifest, input, shape);
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (input.shape[axis] != kDynamic) continue;
      const auto& [size, elsewhere] = known.emplace(input.names[axis], std::pair(shape[axis], input.name)).first->second;
      if (size != shape[axis]) {
        RefuseInput("inputs",
                    input.names[axis] + " is " + std::to_string(shape[axis]) + " in '" + input.name + "' and " +
                        std::to_string(size) + " in '" + elsewhere + "'",
                    "give it one size");
      }
    }
  }
  CheckShapes(manifest, known);
}

}  // namespace tvmake
