#include <doctest/doctest.h>
#include <tvm/support/serializer.h>

#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

#include "byte_streams.h"

using tvmake::BytesReader;
using tvmake::BytesWriter;
namespace ffi = tvm::ffi;

namespace {

template <typename Value>
std::string Written(const Value& value) {
  BytesWriter writer;
  writer.Write(value);
  return writer.Take();
}

template <typename Value>
bool ReadsTo(const std::string& bytes, Value* value) {
  BytesReader reader(bytes.data(), bytes.size());
  return reader.Read(value) && reader.AtEnd();
}

// A value is read back unchanged, and no truncated value is accepted.
template <typename Value>
Value RoundTrip(const Value& value) {
  const std::string bytes = Written(value);
  Value read{};
  CHECK(ReadsTo(bytes, &read));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    Value cut{};
    CAPTURE(size);
    CHECK_FALSE(ReadsTo(bytes.substr(0, size), &cut));
  }
  return read;
}

std::string Length(uint64_t length) { return Written(length); }

}  // namespace

TEST_CASE("numbers are little-endian, strings come after their length") {
  CHECK(Written(uint32_t{0x01020304}) == std::string("\4\3\2\1", 4));
  CHECK(Written(std::string("ab")) == std::string("\2\0\0\0\0\0\0\0ab", 10));
  CHECK(Written(DLDataType{kDLFloat, 16, 4}) == std::string("\2\x10\4\0", 4));
}

TEST_CASE("values are read back unchanged") {
  CHECK(RoundTrip(int64_t{-7}) == -7);
  CHECK(RoundTrip(0.1) == 0.1);
  CHECK(RoundTrip(std::string("text")) == "text");
  CHECK(RoundTrip(std::string()) == "");
  CHECK(RoundTrip(ffi::String("text")) == "text");
  CHECK(RoundTrip(std::vector<std::string>{"a", "", "b"}) == std::vector<std::string>{"a", "", "b"});
  CHECK(RoundTrip(std::vector<std::vector<int32_t>>{{1}, {}, {2, 3}}).at(2) == std::vector<int32_t>{2, 3});
  CHECK(RoundTrip(std::unordered_map<std::string, int>{{"a", 1}, {"b", 2}}).at("b") == 2);
  CHECK(RoundTrip(ffi::Array<ffi::String>{"x", "y"}).size() == 2);
  CHECK(RoundTrip(DLDevice{kDLOpenCL, 3}).device_id == 3);
}

TEST_CASE("a length that the data does not hold takes no memory for it") {
  for (const uint64_t length :
       {uint64_t{1}, uint64_t{1} << 32, uint64_t{1} << 62, std::numeric_limits<uint64_t>::max()}) {
    CAPTURE(length);
    std::string text;
    CHECK_FALSE(ReadsTo(Length(length), &text));
    CHECK(text.size() <= size_t{1} << 20);
    std::vector<double> numbers;
    CHECK_FALSE(ReadsTo(Length(length) + std::string(4, '\0'), &numbers));
    CHECK(numbers.capacity() < 100);
    std::vector<std::string> texts;
    CHECK_FALSE(ReadsTo(Length(length) + Length(length), &texts));
    std::unordered_map<std::string, int> map;
    CHECK_FALSE(ReadsTo(Length(length), &map));
  }
}
