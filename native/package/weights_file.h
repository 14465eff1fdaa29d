// mod.params without its values; TVM reads what is cut short as if it were whole.

#ifndef TVMAKE_WEIGHTS_FILE_H_
#define TVMAKE_WEIGHTS_FILE_H_

#include <string>

namespace tvmake {

// Why a file cannot be TVM's parameters with all that they hold; empty when it can.
std::string DamageOfWeights(const std::string& path);

}  // namespace tvmake

#endif  // TVMAKE_WEIGHTS_FILE_H_
