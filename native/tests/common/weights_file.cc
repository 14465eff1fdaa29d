#include "weights_file.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "file_digest.h"
#include "temporary_directory.h"

using namespace tvmake;
using namespace tvmake::testing;

namespace {

template <typename Value>
std::string Bytes(Value value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

// One parameter of two float32, as TVM writes it.
std::string Written() {
  const std::uint64_t reserved = 0, one = 1;
  const std::int32_t cpu = 1, device = 0, axes = 1;
  const std::uint32_t float32 = 0x00012002;
  const std::int64_t extent = 2, size = 8;
  return Bytes(std::uint64_t{0xF7E58D4F05049CB7}) + Bytes(reserved) + Bytes(one) + Bytes(one) + "w" + Bytes(one) +
         Bytes(std::uint64_t{0xDD5E40F096B4A13F}) + Bytes(reserved) + Bytes(cpu) + Bytes(device) + Bytes(axes) +
         Bytes(float32) + Bytes(extent) + Bytes(size) + std::string(8, 'v');
}

std::string DamageOf(const std::string& content) {
  const TemporaryDirectory directory;
  WriteFile(directory / "mod.params", content);
  try {
    WeightsFile(directory / "mod.params");
    return "";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("whole parameters have no damage") { CHECK(DamageOf(Written()) == ""); }

TEST_CASE("every cut is found") {
  const std::string whole = Written();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CHECK(DamageOf(whole.substr(0, length)) == "it is cut short");
  }
}

TEST_CASE("other files are distinguished from truncated files of parameters") {
  CHECK(DamageOf(std::string(200, 'x')) == "it does not begin as TVM's parameters do");
  std::string other = Written();
  other.replace(other.size() - 16, 8, Bytes(std::int64_t{-1}));
  CHECK(DamageOf(other) == "a tensor has another size than its shape");
}

TEST_CASE("tensors outlive the file, and writing to them does not change it") {
  const TemporaryDirectory directory;
  WriteFile(directory / "mod.params", Written());
  std::optional<tvm::ffi::Tensor> tensor = WeightsFile(directory / "mod.params").Load("w");
  REQUIRE(tensor);
  CHECK(tensor->shape()[0] == 2);
  CHECK(std::string(static_cast<char*>(tensor->data_ptr()), 8) == "vvvvvvvv");
  *static_cast<char*>(tensor->data_ptr()) = 'x';
  CHECK(WeightsFile(directory / "mod.params").Load("w")->shape()[0] == 2);
  CHECK(ReadFile(directory / "mod.params") == Written());
}

TEST_CASE("a tensor that lies where kernels can read it is not copied") {
  const std::string whole = Written();
  const TemporaryDirectory directory;
  // A name of another length moves the data to a multiple of 64.
  const std::size_t length = 1 + (64 - (whole.size() - 8) % 64) % 64;
  std::string moved = whole;
  moved.replace(24, 9, Bytes(std::uint64_t{length}) + std::string(length, 'w'));
  WriteFile(directory / "mod.params", moved);
  const WeightsFile file(directory / "mod.params");
  CHECK(file.Load(std::string(length, 'w'))->data_ptr() == file.Load(std::string(length, 'w'))->data_ptr());
  WriteFile(directory / "unaligned.params", whole);
  const WeightsFile unaligned(directory / "unaligned.params");
  const auto first = unaligned.Load("w"), second = unaligned.Load("w");
  CHECK(first->data_ptr() != second->data_ptr());
}
