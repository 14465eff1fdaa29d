// Sizes of dynamic dimensions: worked out, and compared with their bounds and with each other.
#ifndef TVMAKE_EXTENTS_H_
#define TVMAKE_EXTENTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "manifest.h"

namespace tvmake {

// Throws Error if a dynamic dimension of an input has a size that the package does not take.
//
// shape: fits the input (CheckFits).
// remedy: of the error.
void CheckBounds(const Manifest& manifest, const TensorSpec& input, const std::vector<int64_t>& shape,
                 const std::string& remedy = "");

// Throws Error if a dimension has a size that the package does not take, or several sizes.
//
// shapes: of all inputs, in order, and then perhaps of all states; each fits its input or state.
void CheckExtents(const Manifest& manifest, const std::vector<std::vector<int64_t>>& shapes);

// Whether an extent follows from others ("2*s0 + 1"), rather than being a name.
bool IsArithmetic(const std::string& extent);

// The size of a dimension that follows from others.
//
// size_of: the size of a dimension by its name.
// Throws std::invalid_argument if it is not a sum, difference, product or quotient of names and numbers.
int64_t EvaluateExtent(const std::string& expression, const std::function<int64_t(const std::string&)>& size_of);

}  // namespace tvmake

#endif  // TVMAKE_EXTENTS_H_
