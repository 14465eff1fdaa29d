// How each kind of layer is made by Qualcomm's library.
#pragma once

#include "tensors.h"

#if TVMAKE_HAS_CLML

namespace tvmake {
namespace clml {

/// Makes the layer of a node, whose tensors come from `tensors`. Throws Refusal.
cl_ml_op_qcom MakeLayer(const Library& library, const Graph& graph, int node, Tensors* tensors);

}  // namespace clml
}  // namespace tvmake

#endif  // TVMAKE_HAS_CLML
