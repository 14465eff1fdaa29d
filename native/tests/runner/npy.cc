#include "npy.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using namespace tvmake;

namespace {

std::string Array(const std::string& header, const std::string& data, int version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) bytes += static_cast<char>(header.size() >> 8 * i & 0xff);
  return bytes + header + data;
}

std::string Header(const std::string& descr, const std::string& shape, const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': (" + shape + "), }\n";
}

std::string Problem(const std::string& content, const std::string& dtype = "float32") {
  try {
    ReadNpy(content, dtype, "x");
    return "";
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::kInput);
    return error.what();
  }
}

constexpr char kDamaged[] = "x: is damaged, or no .npy array";

}  // namespace

TEST_CASE("arrays of every type and rank are read back unchanged") {
  const std::vector<std::pair<std::string, std::size_t>> types = {
      {"bool", 1},    {"int8", 1},    {"int16", 2},         {"int32", 4},   {"int64", 8},
      {"uint8", 1},   {"uint16", 2},  {"uint32", 4},        {"uint64", 8},  {"float16", 2},
      {"float32", 4}, {"float64", 8}, {"float8_e4m3fn", 1}, {"bfloat16", 2}};
  for (const auto& [dtype, size] : types) {
    for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{}, {0}, {3}, {2, 3}, {1, 0, 4}}) {
      Tensor tensor{dtype, shape, {}};
      std::size_t bytes = size;
      for (const int64_t extent : shape) bytes *= static_cast<std::size_t>(extent);
      for (std::size_t i = 0; i < bytes; ++i) tensor.data.push_back(static_cast<uint8_t>(i * 7));
      const std::string header = NpyHeader(tensor);
      CHECK(header.size() % 64 == 0);
      CHECK(header.back() == '\n');
      const Tensor read = ReadNpy(header + std::string(tensor.data.begin(), tensor.data.end()), dtype, "x");
      CAPTURE(dtype);
      CHECK(read.dtype == dtype);
      CHECK(read.shape == shape);
      CHECK(read.data == tensor.data);
    }
  }
}

TEST_CASE("headers of both versions are read, however they are padded") {
  const std::string data(8, '\1');
  CHECK(ReadNpy(Array(Header("<f4", "2,"), data, 1), "float32", "x").shape == std::vector<int64_t>{2});
  CHECK(ReadNpy(Array(Header("<f4", "2,"), data, 2), "float32", "x").shape == std::vector<int64_t>{2});
  CHECK(ReadNpy(Array(Header("<f4", "1, 2") + std::string(100, ' '), data), "float32", "x").shape ==
        std::vector<int64_t>{1, 2});
  CHECK(ReadNpy(Array(Header("=u1", "8,"), data), "uint8", "x").dtype == "uint8");
}

TEST_CASE("every cut of an array is refused") {
  const std::string whole = Array(Header("<f4", "2, 3"), std::string(24, '\0'));
  CHECK(Problem(whole) == "");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK(Problem(whole.substr(0, size)) != "");
  }
  CHECK(Problem(whole + '\0') == kDamaged);
}

TEST_CASE("invalid shapes, or shapes larger than the data, are refused") {
  for (const char* shape : {"-1,", "2, -3", "x", "2, x", "1e3,", "2.5,", "9223372036854775807, 9223372036854775807",
                            "99999999999999999999999999,", "4294967296, 4294967296", "1099511627777,", "3,", "1,"}) {
    CAPTURE(shape);
    CHECK(Problem(Array(Header("<f4", shape), std::string(8, '\0'))) != "");
  }
}

TEST_CASE("a header that claims more than there is, is refused") {
  std::string bytes = Array(Header("<f4", "2,"), std::string(8, '\0'), 2);
  for (int at = 8; at < 12; ++at) bytes[static_cast<std::size_t>(at)] = '\xff';
  CHECK(Problem(bytes) == kDamaged);
  CHECK(Problem("\x93NUMPY\x01") == kDamaged);
  CHECK(Problem("") == kDamaged);
  CHECK(Problem(std::string(64, 'x')) == kDamaged);
}

TEST_CASE("other types and orders are named") {
  const std::string data(8, '\0');
  for (const char* descr : {">f4", "<c8", "<U2", "|O", "", "f", "|V8", "<f\x1b"}) {
    CAPTURE(descr);
    CHECK(Problem(Array(Header(descr, "1,"), data)).find("has numpy's type '") != std::string::npos);
  }
  CHECK(Problem(Array(Header("<f\x1b", "1,"), data)) == "x: has numpy's type '<f?', the package takes float32");
  CHECK(Problem(Array(Header("<f4", "2,", "True"), data)) ==
        "x: is stored column by column\n  save numpy.ascontiguousarray of it");
}

TEST_CASE("raw bytes have the expected type if their size is right") {
  CHECK(ReadNpy(Array(Header("<V2", "1,"), "ab"), "bfloat16", "x").dtype == "bfloat16");
  CHECK(Problem(Array(Header("<V2", "1,"), "ab"), "float8_e4m3fn") != "");
}
