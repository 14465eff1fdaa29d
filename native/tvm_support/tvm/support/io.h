// Byte streams, as TVM's public headers expect them.
//
// tvm/runtime/tensor.h and tvm/runtime/vm/executable.h include <tvm/support/io.h>, which TVM's wheel leaves out.
// The virtual functions are in the order that libtvm_runtime.so was compiled with: bytes in, bytes out, destructor.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tvm {
namespace support {

/// How a type is written; specialised in serializer.h, and in TVM's headers for their own types.
template <typename T, typename Enable = void>
struct Serializer {
  static constexpr bool enabled = false;
};

/// Where bytes come from or go to.
class Stream {
 public:
  /// Fills up to `size` bytes and returns how many there were.
  virtual size_t Read(void* ptr, size_t size) = 0;
  /// Takes `size` bytes and returns how many it kept.
  virtual size_t Write(const void* ptr, size_t size) = 0;
  virtual ~Stream() = default;

  template <typename T>
  void Write(const T& value) {
    static_assert(Serializer<T>::enabled, "this type has no Serializer");
    Serializer<T>::Write(this, value);
  }

  /// False when the stream ends within the value.
  template <typename T>
  bool Read(T* value) {
    static_assert(Serializer<T>::enabled, "this type has no Serializer");
    return Serializer<T>::Read(this, value);
  }

  template <typename T>
  void WriteArray(const T* values, size_t count) {
    for (const T* value = values; value != values + count; ++value) Write<T>(*value);
  }

  template <typename T>
  bool ReadArray(T* values, size_t count) {
    for (T* value = values; value != values + count; ++value) {
      if (!Read<T>(value)) return false;
    }
    return true;
  }
};

}  // namespace support
}  // namespace tvm
