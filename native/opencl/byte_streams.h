// Streams over bytes in memory.
#pragma once

#include <tvm/support/io.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace tvmake {

/// Reads bytes that someone else keeps alive.
class BytesReader : public tvm::support::Stream {
 public:
  using Stream::Read;
  using Stream::Write;

  BytesReader(const char* data, size_t size) : data_(data), left_(size) {}

  size_t Read(void* ptr, size_t size) final {
    size_t count = std::min(size, left_);
    if (count != 0) std::memcpy(ptr, data_, count);
    data_ += count;
    left_ -= count;
    return count;
  }
  size_t Write(const void*, size_t) final { return 0; }

  bool AtEnd() const { return left_ == 0; }

 private:
  const char* data_;
  size_t left_;
};

/// Collects what is written.
class BytesWriter : public tvm::support::Stream {
 public:
  using Stream::Read;
  using Stream::Write;

  size_t Read(void*, size_t) final { return 0; }
  size_t Write(const void* ptr, size_t size) final {
    bytes_.append(static_cast<const char*>(ptr), size);
    return size;
  }

  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

}  // namespace tvmake
