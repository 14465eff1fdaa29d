// Tensors that a package keeps from run to run: what they begin with.
#ifndef TVMAKE_STATES_H_
#define TVMAKE_STATES_H_

#include <cstdint>
#include <vector>

#include "manifest.h"

namespace tvmake {

// The shapes of the zeros that the states begin with, as tvmake.artifact.states.initial_states tells.
//
// inputs: the shapes of the first run's inputs, in order.
// Throws Error if a state's size follows from others in a way that is unknown here.
std::vector<std::vector<int64_t>> InitialShapes(const Manifest& manifest,
                                                const std::vector<std::vector<int64_t>>& inputs);

}  // namespace tvmake

#endif  // TVMAKE_STATES_H_
