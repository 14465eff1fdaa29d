// numpy's .npy format (numpy.lib.format), version 1.0 and 2.0: one array with its type and shape.
#ifndef TVMAKE_RUNNER_NPY_H_
#define TVMAKE_RUNNER_NPY_H_

#include <string>

#include "tvmake/package.h"

namespace tvmake {

// Read an array.
//
// dtype: the element type to see in raw bytes; numpy keeps the bytes of bfloat16 and 8-bit floats but not their type.
// where: what errors begin with.
// Throws Error if it is damaged, or in an order that is not C's.
Tensor ReadNpy(const std::string& content, const std::string& dtype, const std::string& where);

// The bytes before an array's data, as numpy writes them.
std::string NpyHeader(const Tensor& tensor);

}  // namespace tvmake

#endif  // TVMAKE_RUNNER_NPY_H_
