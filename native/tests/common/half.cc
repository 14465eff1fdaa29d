#include "half.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>

using tvmake::FromHalf;
using tvmake::ToHalf;

namespace {

double Value(uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const int fraction = bits & 0x3ff;
  const double size = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -size : size;
}

}  // namespace

TEST_CASE("every finite float16 converts to itself") {
  for (int bits = 0; bits < 0x10000; ++bits) {
    if ((bits >> 10 & 0x1f) == 0x1f) continue;
    if (ToHalf(Value(static_cast<uint16_t>(bits))) != bits) {
      CAPTURE(bits);
      FAIL_CHECK("another float16");
    }
  }
}

TEST_CASE("values between two float16 go to the nearer one, halfway to the even one") {
  for (uint16_t bits = 0; bits < 0x7bff; ++bits) {
    const double low = Value(bits), high = Value(bits + 1), middle = (low + high) / 2;
    const uint16_t even = bits % 2 ? bits + 1 : bits;
    const bool is_right = ToHalf(middle) == even && ToHalf(std::nextafter(middle, 0)) == bits &&
                          ToHalf(std::nextafter(middle, 1e9)) == bits + 1 && ToHalf(-middle) == (even | 0x8000);
    if (!is_right) {
      CAPTURE(bits);
      FAIL_CHECK("rounded to the wrong float16");
    }
  }
}

TEST_CASE("what does not fit a float16 is infinite, and NaN stays NaN") {
  CHECK(ToHalf(65519.99) == 0x7bff);
  CHECK(ToHalf(65520) == 0x7c00);
  CHECK(ToHalf(-1e300) == 0xfc00);
  CHECK(ToHalf(std::numeric_limits<double>::infinity()) == 0x7c00);
  CHECK((ToHalf(std::nan("")) & 0x7c00) == 0x7c00);
  CHECK((ToHalf(std::nan("")) & 0x03ff) != 0);
  CHECK(ToHalf(-0.0) == 0x8000);
}

TEST_CASE("every float16 is read as the value that it represents") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const double value = FromHalf(static_cast<uint16_t>(bits));
    const bool is_finite = (bits >> 10 & 0x1f) != 0x1f;
    if (is_finite ? value != Value(static_cast<uint16_t>(bits)) : std::isfinite(value)) {
      CAPTURE(bits);
      FAIL_CHECK("another value");
    }
  }
  CHECK(FromHalf(0xfc00) == -std::numeric_limits<double>::infinity());
  CHECK(std::isnan(FromHalf(0x7e00)));
}
