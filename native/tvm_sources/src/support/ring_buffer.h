// A queue of bytes that grows, by the names that the sources of TVM 0.27's RPC know it by.
#pragma once

#include <tvm/ffi/error.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace tvm {
namespace support {

/// Bytes that come in at one end and go out at the other. A large buffer that was needed once is given back.
class RingBuffer {
 public:
  RingBuffer() : bytes_(kLeast) {}

  size_t bytes_available() const { return count_; }
  size_t capacity() const { return bytes_.size(); }

  /// Makes room for `size` bytes in all.
  void Reserve(size_t size) {
    if (size > bytes_.size()) {
      size_t grown = bytes_.size();
      while (grown < size) grown *= 2;
      Resize(grown);
    } else if (size <= kLeast && count_ <= kLeast && bytes_.size() > kLeast * 8) {
      Resize(kLeast);
    }
  }

  /// Takes exactly `size` bytes out.
  void Read(void* data, size_t size) {
    TVM_FFI_ICHECK_GE(count_, size) << "the buffer holds less than what is read from it";
    auto* out = static_cast<char*>(data);
    while (size != 0) {
      const size_t step = std::min(size, bytes_.size() - head_);
      std::memcpy(out, bytes_.data() + head_, step);
      Drop(step);
      out += step;
      size -= step;
    }
  }

  void Write(const void* data, size_t size) {
    Reserve(count_ + size);
    const auto* in = static_cast<const char*>(data);
    while (size != 0) {
      const size_t tail = (head_ + count_) % bytes_.size();
      const size_t step = std::min(size, bytes_.size() - tail);
      std::memcpy(bytes_.data() + tail, in, step);
      count_ += step;
      in += step;
      size -= step;
    }
  }

  /// Gives up to `size` bytes, those that lie together, to `send(const void*, size_t)`, and drops as many as it takes.
  template <typename Send>
  size_t ReadWithCallback(Send send, size_t size) {
    TVM_FFI_ICHECK_GE(count_, size) << "the buffer holds less than what is read from it";
    const size_t taken = send(bytes_.data() + head_, std::min(size, bytes_.size() - head_));
    Drop(taken);
    return taken;
  }

  /// Has `receive(void*, size_t)` fill up to `size` bytes, those that lie together.
  template <typename Receive>
  size_t WriteWithCallback(Receive receive, size_t size) {
    Reserve(count_ + size);
    const size_t tail = (head_ + count_) % bytes_.size();
    const size_t got = receive(bytes_.data() + tail, std::min(size, bytes_.size() - tail));
    count_ += got;
    return got;
  }

 private:
  static constexpr size_t kLeast = size_t{4} << 10;

  void Drop(size_t size) {
    count_ -= size;
    head_ = count_ == 0 ? 0 : (head_ + size) % bytes_.size();
  }

  void Resize(size_t size) {
    std::vector<char> fresh(size);
    const size_t count = count_;
    if (count != 0) Read(fresh.data(), count);
    bytes_.swap(fresh);
    head_ = 0;
    count_ = count;
  }

  std::vector<char> bytes_;
  size_t head_ = 0;
  size_t count_ = 0;
};

}  // namespace support
}  // namespace tvm
