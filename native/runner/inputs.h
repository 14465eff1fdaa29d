// Where a run's inputs come from.
#ifndef TVMAKE_RUNNER_INPUTS_H_
#define TVMAKE_RUNNER_INPUTS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "manifest.h"
#include "options.h"
#include "tvmake/package.h"

namespace tvmake {

// The inputs of one sample, in signature order.
using InputSource = std::function<std::vector<Tensor>(int64_t sample)>;

// Inputs from the file that the options name, or random ones: equal for equal samples, within the range that the
// package gives, if it gives one.
//
// Throws Error, also when called: the file does not fit the package, or a dynamic dimension is not given.
InputSource OpenInputs(const Manifest& manifest, const Options& options);

}  // namespace tvmake

#endif  // TVMAKE_RUNNER_INPUTS_H_
