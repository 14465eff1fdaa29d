// Streams over bytes in memory, by the names that the sources of TVM 0.27's runtime know them by.
//
// Those sources, which TVM's wheel carries, include "support/bytes_io.h", which it does not.
#pragma once

#include <tvm/ffi/string.h>
#include <tvm/support/io.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace tvm {
namespace support {

/// Reads bytes that someone else keeps alive.
class BytesInStream : public Stream {
 public:
  using Stream::Read;
  using Stream::Write;

  explicit BytesInStream(const std::string& bytes) : data_(bytes.data()), left_(bytes.size()) {}
  explicit BytesInStream(const ffi::Bytes& bytes) : data_(bytes.data()), left_(bytes.size()) {}

  size_t Read(void* ptr, size_t size) override {
    const size_t count = std::min(size, left_);
    if (count != 0) std::memcpy(ptr, data_, count);
    data_ += count;
    left_ -= count;
    return count;
  }
  size_t Write(const void*, size_t) override { return 0; }

 private:
  const char* data_;
  size_t left_;
};

/// Appends to a string of someone else.
class BytesOutStream : public Stream {
 public:
  using Stream::Read;
  using Stream::Write;

  explicit BytesOutStream(std::string* bytes) : bytes_(bytes) {}

  size_t Read(void*, size_t) override { return 0; }
  size_t Write(const void* ptr, size_t size) override {
    bytes_->append(static_cast<const char*>(ptr), size);
    return size;
  }

 private:
  std::string* bytes_;
};

}  // namespace support
}  // namespace tvm
