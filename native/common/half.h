// IEEE half precision.
#ifndef TVMAKE_HALF_H_
#define TVMAKE_HALF_H_

#include <cstdint>

namespace tvmake {

// The float16 nearest to a value, ties to even, as its bits.
uint16_t ToHalf(double value);

// The value of a float16, by its bits.
double FromHalf(uint16_t bits);

}  // namespace tvmake

#endif  // TVMAKE_HALF_H_
