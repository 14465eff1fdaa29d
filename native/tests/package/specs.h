// Inputs and states of made-up packages.
#ifndef TVMAKE_TESTS_PACKAGE_SPECS_H_
#define TVMAKE_TESTS_PACKAGE_SPECS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tvmake/package.h"

namespace tvmake {

// A tensor of float32; names: of its dimensions, empty for fixed ones.
inline TensorSpec Spec(const std::string& name, const std::vector<int64_t>& shape,
                       const std::vector<std::string>& names) {
  TensorSpec spec;
  spec.name = name;
  spec.dtype = "float32";
  spec.shape = shape;
  spec.names = names;
  return spec;
}

}  // namespace tvmake

#endif  // TVMAKE_TESTS_PACKAGE_SPECS_H_
