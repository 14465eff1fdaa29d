// TVM's binary format: little-endian numbers; strings and sequences after their length in 64 bits.
//
// <tvm/support/serializer.h> is the second header that TVM's wheel includes without carrying it. Lengths are read from
// files that may be damaged: memory is taken as the data arrives, never for a length alone.
#pragma once

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/endian.h>
#include <tvm/ffi/string.h>
#include <tvm/support/io.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tvm {
namespace support {

template <typename T>
struct Serializer<T, std::enable_if_t<std::is_arithmetic_v<T> || std::is_enum_v<T>>> {
  static constexpr bool enabled = true;

  static void Write(Stream* stream, const T& value) {
    T copy = value;
    Swap(&copy);
    stream->Write(static_cast<const void*>(&copy), sizeof(T));
  }

  static bool Read(Stream* stream, T* value) {
    if (stream->Read(static_cast<void*>(value), sizeof(T)) != sizeof(T)) return false;
    Swap(value);
    return true;
  }

 private:
  static void Swap(T* value) {
    if (!TVM_FFI_IO_NO_ENDIAN_SWAP) ffi::ByteSwap(value, sizeof(T), 1);
  }
};

template <>
struct Serializer<DLDataType> {
  static constexpr bool enabled = true;

  static void Write(Stream* stream, const DLDataType& type) {
    stream->Write(type.code);
    stream->Write(type.bits);
    stream->Write(type.lanes);
  }

  static bool Read(Stream* stream, DLDataType* type) {
    return stream->Read(&type->code) && stream->Read(&type->bits) && stream->Read(&type->lanes);
  }
};

template <>
struct Serializer<DLDevice> {
  static constexpr bool enabled = true;

  static void Write(Stream* stream, const DLDevice& device) {
    stream->Write(static_cast<int32_t>(device.device_type));
    stream->Write(static_cast<int32_t>(device.device_id));
  }

  static bool Read(Stream* stream, DLDevice* device) {
    int32_t type = 0;
    int32_t id = 0;
    if (!stream->Read(&type) || !stream->Read(&id)) return false;
    *device = DLDevice{static_cast<DLDeviceType>(type), id};
    return true;
  }
};

namespace details {

constexpr size_t kReadStep = size_t{1} << 20;

template <typename Text>
void WriteText(Stream* stream, const Text& text) {
  stream->Write(static_cast<uint64_t>(text.size()));
  if (text.size() != 0) stream->Write(static_cast<const void*>(text.data()), text.size());
}

inline bool ReadText(Stream* stream, std::string* text) {
  uint64_t size = 0;
  if (!stream->Read(&size)) return false;
  text->clear();
  while (text->size() < size) {
    size_t had = text->size();
    size_t step = static_cast<size_t>(std::min<uint64_t>(size - had, kReadStep));
    text->resize(had + step);
    if (stream->Read(static_cast<void*>(text->data() + had), step) != step) return false;
  }
  return true;
}

template <typename Sequence>
void WriteSequence(Stream* stream, const Sequence& values) {
  stream->Write(static_cast<uint64_t>(values.size()));
  for (const auto& value : values) stream->Write(value);
}

/// Reads a length and that many values of type T, each handed to `take`.
template <typename T, typename Take>
bool ReadSequence(Stream* stream, Take take) {
  uint64_t count = 0;
  if (!stream->Read(&count)) return false;
  for (uint64_t i = 0; i < count; ++i) {
    T value{};
    if (!stream->Read(&value)) return false;
    take(std::move(value));
  }
  return true;
}

}  // namespace details

template <>
struct Serializer<std::string> {
  static constexpr bool enabled = true;
  static void Write(Stream* stream, const std::string& text) { details::WriteText(stream, text); }
  static bool Read(Stream* stream, std::string* text) { return details::ReadText(stream, text); }
};

template <>
struct Serializer<ffi::String> {
  static constexpr bool enabled = true;
  static void Write(Stream* stream, const ffi::String& text) { details::WriteText(stream, text); }
  static bool Read(Stream* stream, ffi::String* text) {
    std::string read;
    if (!details::ReadText(stream, &read)) return false;
    *text = ffi::String(std::move(read));
    return true;
  }
};

template <typename T>
struct Serializer<std::vector<T>> {
  static constexpr bool enabled = true;
  static void Write(Stream* stream, const std::vector<T>& values) { details::WriteSequence(stream, values); }
  static bool Read(Stream* stream, std::vector<T>* values) {
    values->clear();
    return details::ReadSequence<T>(stream, [values](T value) { values->push_back(std::move(value)); });
  }
};

template <typename T>
struct Serializer<ffi::Array<T>> {
  static constexpr bool enabled = true;
  static void Write(Stream* stream, const ffi::Array<T>& values) {
    stream->Write(static_cast<uint64_t>(values.size()));
    for (const T& value : values) stream->Write(value);
  }
  static bool Read(Stream* stream, ffi::Array<T>* values) {
    ffi::Array<T> read;
    if (!details::ReadSequence<T>(stream, [&read](T value) { read.push_back(std::move(value)); })) return false;
    *values = std::move(read);
    return true;
  }
};

template <typename K, typename V>
struct Serializer<std::pair<K, V>> {
  static constexpr bool enabled = true;
  static void Write(Stream* stream, const std::pair<K, V>& pair) {
    stream->Write(pair.first);
    stream->Write(pair.second);
  }
  static bool Read(Stream* stream, std::pair<K, V>* pair) {
    return stream->Read(&pair->first) && stream->Read(&pair->second);
  }
};

template <typename K, typename V>
struct Serializer<std::unordered_map<K, V>> {
  static constexpr bool enabled = true;
  static void Write(Stream* stream, const std::unordered_map<K, V>& map) {
    stream->Write(static_cast<uint64_t>(map.size()));
    for (const auto& [key, value] : map) {
      stream->Write(key);
      stream->Write(value);
    }
  }
  static bool Read(Stream* stream, std::unordered_map<K, V>* map) {
    map->clear();
    return details::ReadSequence<std::pair<K, V>>(
        stream, [map](std::pair<K, V> pair) { (*map)[std::move(pair.first)] = std::move(pair.second); });
  }
};

}  // namespace support
}  // namespace tvm
