#include "npz.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <random>
#include <string>

#include "temporary_directory.h"

using namespace tvmake;
using namespace tvmake::testing;

namespace {

Tensor Numbers(const std::string& dtype, std::vector<int64_t> shape, std::size_t bytes) {
  Tensor tensor{dtype, std::move(shape), {}};
  for (std::size_t i = 0; i < bytes; ++i) tensor.data.push_back(static_cast<uint8_t>(i * 11));
  return tensor;
}

// A small archive of two arrays.
std::string Archive(const TemporaryDirectory& directory) {
  NpzWriter writer(directory / "archive.npz");
  writer.Add("input/x/00000.npy", Numbers("float32", {2, 3}, 24));
  writer.Add("input/y/00000.npy", Numbers("uint8", {}, 1));
  writer.Finish();
  return ContentOf(directory / "archive.npz");
}

// Whether all of a file can be read. Anything but an Error of the input fails the test.
bool Reads(const std::string& path) {
  try {
    NpzReader reader(path);
    reader.Read("input/x/00000.npy", "float32");
    reader.Read("input/y/00000.npy", "uint8");
    return true;
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::kInput);
    return false;
  }
}

void Set(std::string* bytes, std::size_t at, uint64_t value, int size) {
  for (int i = 0; i < size; ++i) (*bytes)[at + static_cast<std::size_t>(i)] = static_cast<char>(value >> 8 * i);
}

}  // namespace

TEST_CASE("arrays are read back unchanged") {
  const TemporaryDirectory directory;
  Archive(directory);
  NpzReader reader(directory / "archive.npz");
  CHECK(reader.Has("input/x/00000.npy"));
  CHECK_FALSE(reader.Has("input/z/00000.npy"));
  const Tensor x = reader.Read("input/x/00000.npy", "float32"), expected = Numbers("float32", {2, 3}, 24);
  CHECK(x.dtype == expected.dtype);
  CHECK(x.shape == expected.shape);
  CHECK(x.data == expected.data);
  CHECK(reader.Read("input/y/00000.npy", "uint8").shape.empty());
  CHECK_THROWS_WITH_AS(reader.Read("input/z/00000.npy", "uint8"),
                       (directory / "archive.npz" + ": it lacks input/z/00000.npy").c_str(), Error);
}

TEST_CASE("equal arrays give equal bytes") {
  const TemporaryDirectory first, second;
  CHECK(Archive(first) == Archive(second));
}

TEST_CASE("an archive of nothing is one") {
  const TemporaryDirectory directory;
  NpzWriter(directory / "empty.npz").Finish();
  CHECK_FALSE(NpzReader(directory / "empty.npz").Has("input/x/00000.npy"));
}

TEST_CASE("an archive that was not finished leaves no file") {
  const TemporaryDirectory directory;
  { NpzWriter(directory / "left.npz").Add("a", Numbers("uint8", {1}, 1)); }
  CHECK(std::filesystem::is_empty(directory.path()));
}

TEST_CASE("names of members are percent-encoded") {
  CHECK(MemberName("input", "x", 3) == "input/x/00003.npy");
  CHECK(MemberName("output", "a/b c%\xc3\xa9~_.-", 123456) == "output/a%2Fb%20c%25%C3%A9~_.-/123456.npy");
  CHECK(MemberName("input", std::string(1, '\0'), 0) == "input/%00/00000.npy");
}

TEST_CASE("every cut of an archive is refused") {
  const TemporaryDirectory directory;
  const std::string whole = Archive(directory);
  const std::string path = directory / "cut.npz";
  WriteFile(path, whole);
  CHECK(Reads(path));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    WriteFile(path, whole.substr(0, size));
    CAPTURE(size);
    CHECK_FALSE(Reads(path));
  }
}

TEST_CASE("a changed byte is refused or changes nothing that is read") {
  const TemporaryDirectory directory;
  const std::string whole = Archive(directory);
  const std::string path = directory / "changed.npz";
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ change);
      WriteFile(path, changed);
      if (Reads(path)) {
        NpzReader reader(path);
        CAPTURE(at);
        CHECK(reader.Read("input/x/00000.npy", "float32").data == Numbers("float32", {2, 3}, 24).data);
      }
    }
  }
}

TEST_CASE("sizes and offsets of a hostile directory reach nothing") {
  const TemporaryDirectory directory;
  const std::string whole = Archive(directory);
  const std::string path = directory / "hostile.npz";
  const std::size_t central = whole.find("PK\x01\x02"), end = whole.rfind("PK\x05\x06");
  REQUIRE(central != std::string::npos);
  const auto refuses = [&](std::size_t at, uint64_t value, int size) {
    std::string hostile = whole;
    Set(&hostile, at, value, size);
    WriteFile(path, hostile);
    return !Reads(path);
  };
  for (const uint64_t value :
       {uint64_t{0xffffffff}, uint64_t{0xfffffffe}, uint64_t{0x7fffffff}, uint64_t{whole.size()}}) {
    CAPTURE(value);
    CHECK(refuses(central + 24, value, 4));  // size of the member
    CHECK(refuses(central + 42, value, 4));  // its offset
    CHECK(refuses(end + 12, value, 4));      // size of the directory
    CHECK(refuses(end + 16, value, 4));      // its offset
  }
  CHECK(refuses(central + 28, 0xffff, 2));  // length of the name
  CHECK(refuses(end + 10, 0xffff, 2));      // number of members
}

TEST_CASE("64-bit extents of a hostile archive reach nothing") {
  // A member whose size and offset are in a Zip64 field, all bits set.
  const TemporaryDirectory directory;
  const std::string path = directory / "hostile.npz", name = "input/x/00000.npy";
  std::string central("PK\x01\x02", 4);
  central.resize(46, '\0');
  Set(&central, 20, 0xffffffff, 4);
  Set(&central, 24, 0xffffffff, 4);
  Set(&central, 28, name.size(), 2);
  Set(&central, 42, 0xffffffff, 4);
  for (const int length : {24, 8, 0, 0xffff}) {
    std::string entry = central;
    std::string field(4, '\0');
    Set(&field, 0, 1, 2);
    Set(&field, 2, static_cast<uint64_t>(length), 2);
    field.append(static_cast<std::size_t>(std::min(length, 24)), '\xff');
    Set(&entry, 30, field.size(), 2);
    entry += name + field;
    std::string end("PK\x05\x06", 4);
    end.resize(22, '\0');
    Set(&end, 10, 1, 2);
    Set(&end, 12, entry.size(), 4);
    WriteFile(path, entry + end);
    CAPTURE(length);
    CHECK_FALSE(Reads(path));
  }
}

TEST_CASE("compressed members are named with what writes others") {
  const TemporaryDirectory directory;
  std::string bytes = Archive(directory);
  Set(&bytes, bytes.find("PK\x01\x02") + 10, 8, 2);
  WriteFile(directory / "archive.npz", bytes);
  CHECK_THROWS_WITH_AS(NpzReader(directory / "archive.npz"),
                       (directory / "archive.npz" + ": 'input/x/00000.npy' is compressed\n  write it with numpy.savez, "
                                                    "not savez_compressed")
                           .c_str(),
                       Error);
}

TEST_CASE("random bytes are not an archive") {
  const TemporaryDirectory directory;
  const std::string path = directory / "random.npz";
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::string bytes(random() % 300, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    bytes += std::string("PK\x05\x06", 4);
    for (int i = 0; i < 18; ++i) bytes.push_back(static_cast<char>(random() % 3 ? 0 : random()));
    WriteFile(path, bytes);
    CHECK_FALSE(Reads(path));
  }
  CHECK_THROWS_WITH_AS(NpzReader(directory / "absent"), (directory / "absent" + ": no such file").c_str(), Error);
  CHECK_THROWS_AS(NpzReader(directory.path()), Error);
}
