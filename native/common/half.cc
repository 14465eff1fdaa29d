#include "half.h"

#include <cmath>

namespace tvmake {

uint16_t ToHalf(double value) {
  constexpr double kSmallestNormal = 6.103515625e-05;  // 2^-14
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double size = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (size < kSmallestNormal) {
    // Subnormal: a multiple of 2^-24; rounding up to 2^-14 gives the smallest normal number by itself.
    return sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(size, 24)));
  }
  if (size >= 65520.0) return sign | 0x7c00;  // halfway between the largest float16 and the next power of two
  int exponent = 0;
  const double fraction = std::frexp(size, &exponent);  // size = fraction * 2^exponent, fraction in [0.5, 1)
  // 11 significant bits; a carry into the exponent is correct.
  const auto bits = static_cast<uint32_t>(std::nearbyint(std::ldexp(fraction, 11)));
  return sign | static_cast<uint16_t>(((exponent + 13) << 10) + bits);
}

double FromHalf(uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  double size = 0;
  if (exponent == 0x1f) size = fraction ? NAN : INFINITY;
  else if (exponent == 0) size = std::ldexp(fraction, -24);
  else size = std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -size : size;
}

}  // namespace tvmake
