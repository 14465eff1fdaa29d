// Base64 (RFC 4648) on top of another stream, by the names that the sources of TVM 0.27's runtime know them by.
#pragma once

#include <tvm/support/io.h>

#include <array>
#include <cstdint>

namespace tvm {
namespace support {

namespace details {

constexpr char kBase64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The value of each character; -1 for those that stand for nothing.
inline const std::array<int8_t, 256>& Base64Values() {
  static const std::array<int8_t, 256> values = [] {
    std::array<int8_t, 256> made;
    made.fill(-1);
    for (int i = 0; i < 64; ++i) made[static_cast<uint8_t>(kBase64[i])] = static_cast<int8_t>(i);
    return made;
  }();
  return values;
}

}  // namespace details

/// Reads what the text in another stream stands for. Ends at its padding, or at what is no base64.
class Base64InStream : public Stream {
 public:
  using Stream::Read;
  using Stream::Write;

  explicit Base64InStream(Stream* source) : source_(source) {}

  /// TVM calls it before it reads; there is nothing to seek here.
  void InitPosition() {}

  size_t Read(void* ptr, size_t size) override {
    auto* bytes = static_cast<uint8_t*>(ptr);
    for (size_t i = 0; i < size; ++i) {
      if (bits_ < 8 && !Fill()) return i;
      bits_ -= 8;
      bytes[i] = static_cast<uint8_t>(buffer_ >> bits_);
    }
    return size;
  }
  size_t Write(const void*, size_t) override { return 0; }

 private:
  bool Fill() {
    while (bits_ < 8) {
      uint8_t character = 0;
      if (source_->Read(static_cast<void*>(&character), 1) != 1) return false;
      const int8_t value = details::Base64Values()[character];
      if (value < 0) return false;
      buffer_ = (buffer_ << 6 | static_cast<uint32_t>(value)) & 0xffffff;
      bits_ += 6;
    }
    return true;
  }

  Stream* source_;
  uint32_t buffer_ = 0;
  int bits_ = 0;
};

/// Writes bytes as text into another stream.
class Base64OutStream : public Stream {
 public:
  using Stream::Read;
  using Stream::Write;

  explicit Base64OutStream(Stream* sink) : sink_(sink) {}

  size_t Read(void*, size_t) override { return 0; }
  size_t Write(const void* ptr, size_t size) override {
    const auto* bytes = static_cast<const uint8_t*>(ptr);
    for (size_t i = 0; i < size; ++i) {
      buffer_ = buffer_ << 8 | bytes[i];
      if (++count_ == 3) Put(4);
    }
    return size;
  }

  /// Writes what is left, padded to four characters.
  void Finish() {
    if (count_ == 0) return;
    const int kept = count_ + 1;
    buffer_ <<= 8 * (3 - count_);
    Put(kept);
  }

 private:
  void Put(int kept) {
    char text[4];
    for (int i = 0; i < 4; ++i) text[i] = i < kept ? details::kBase64[buffer_ >> (18 - 6 * i) & 63] : '=';
    sink_->Write(static_cast<const void*>(text), sizeof text);
    buffer_ = 0;
    count_ = 0;
  }

  Stream* sink_;
  uint32_t buffer_ = 0;
  int count_ = 0;
};

}  // namespace support
}  // namespace tvm
