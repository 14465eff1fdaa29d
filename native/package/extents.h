// Sizes of dynamic dimensions, compared with their bounds and with each other.
#ifndef TVMAKE_EXTENTS_H_
#define TVMAKE_EXTENTS_H_

#include <cstdint>
#include <vector>

#include "manifest.h"

namespace tvmake {

// Throws Error if a dynamic dimension of an input has a size that the package does not take.
//
// shape: fits the input (CheckFits).
void CheckBounds(const Manifest& manifest, const TensorSpec& input, const std::vector<int64_t>& shape);

// Throws Error if a dimension has a size that the package does not take, or several sizes.
//
// shapes: of all inputs, in order; each fits its input.
void CheckExtents(const Manifest& manifest, const std::vector<std::vector<int64_t>>& shapes);

}  // namespace tvmake

#endif  // TVMAKE_EXTENTS_H_
