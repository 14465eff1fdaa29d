// Conversions between half and wider floats, by the names and template arguments that TVM 0.27's runtime knows them by.
//
// IEEE 754 formats, rounding to the nearest, ties to even. Types are of the values, their bits, and the bits' significand.
#pragma once

#include <cstdint>
#include <cstring>

template <typename Float, typename Bits, int kSignificand>
struct FloatFormat {
  static constexpr int kBits = sizeof(Bits) * 8;
  static constexpr int kExponent = kBits - kSignificand - 1;
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr int kLargest = (1 << kExponent) - 1;  // the exponent of infinity

  static Bits BitsOf(Float value) {
    static_assert(sizeof(Float) == sizeof(Bits), "the bits of a value");
    Bits bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
  }
  static Float Of(Bits bits) {
    Float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
};

/// A narrower float of a wider one.
template <typename Wide, typename WideBits, int kWide, typename Narrow, typename NarrowBits, int kNarrow>
inline Narrow __truncXfYf2__(Wide value) {
  using From = FloatFormat<Wide, WideBits, kWide>;
  using To = FloatFormat<Narrow, NarrowBits, kNarrow>;
  constexpr int kDropped = kWide - kNarrow;
  const WideBits bits = From::BitsOf(value);
  const auto sign = static_cast<NarrowBits>(static_cast<NarrowBits>(bits >> (From::kBits - 1)) << (To::kBits - 1));
  const int exponent = static_cast<int>(bits >> kWide) & From::kLargest;
  WideBits significand = bits & ((WideBits{1} << kWide) - 1);
  const auto infinity = static_cast<NarrowBits>(NarrowBits(To::kLargest) << kNarrow);

  if (exponent == From::kLargest) {
    const auto payload = static_cast<NarrowBits>(significand >> kDropped);
    const auto quiet = significand ? static_cast<NarrowBits>(payload | NarrowBits(1) << (kNarrow - 1)) : NarrowBits(0);
    return To::Of(static_cast<NarrowBits>(sign | infinity | quiet));
  }
  int scaled = exponent - From::kBias + To::kBias;
  if (scaled >= To::kLargest) return To::Of(static_cast<NarrowBits>(sign | infinity));
  int dropped = kDropped;
  if (scaled <= 0) {  // becomes subnormal, or zero
    dropped += 1 - scaled;
    scaled = 0;
    if (dropped > kWide + 1 || exponent == 0) return To::Of(sign);
    significand |= WideBits{1} << kWide;
  }
  const WideBits half = WideBits{1} << (dropped - 1);
  const WideBits rest = significand & ((half << 1) - 1);
  WideBits kept = (significand >> dropped) + (static_cast<WideBits>(scaled) << kNarrow);
  if (rest > half || (rest == half && (kept & 1))) ++kept;  // may carry into the exponent, up to infinity, as it should
  return To::Of(static_cast<NarrowBits>(sign | static_cast<NarrowBits>(kept)));
}

/// A wider float of a narrower one, which is exact.
template <typename Narrow, typename NarrowBits, int kNarrow, typename Wide, typename WideBits, int kWide>
inline Wide __extendXfYf2__(Narrow value) {
  using From = FloatFormat<Narrow, NarrowBits, kNarrow>;
  using To = FloatFormat<Wide, WideBits, kWide>;
  constexpr int kAdded = kWide - kNarrow;
  const NarrowBits bits = From::BitsOf(value);
  const WideBits sign = static_cast<WideBits>(bits >> (From::kBits - 1)) << (To::kBits - 1);
  int exponent = (bits >> kNarrow) & From::kLargest;
  WideBits significand = bits & ((WideBits{1} << kNarrow) - 1);

  if (exponent == From::kLargest) return To::Of(sign | WideBits(To::kLargest) << kWide | significand << kAdded);
  if (exponent == 0) {
    if (significand == 0) return To::Of(sign);
    exponent = 1;
    while (!(significand >> kNarrow)) {
      significand <<= 1;
      --exponent;
    }
    significand &= (WideBits{1} << kNarrow) - 1;
  }
  const auto scaled = static_cast<WideBits>(exponent - From::kBias + To::kBias);
  return To::Of(sign | scaled << kWide | significand << kAdded);
}
