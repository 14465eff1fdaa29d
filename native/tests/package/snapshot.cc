#include "snapshot.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

using namespace tvmake;

namespace {

TensorSpec Hidden() {
  TensorSpec hidden;
  hidden.name = "h \"\xC3\xA9\"\n\x01";
  hidden.dtype = "float32";
  hidden.shape = {2};
  hidden.names = {""};
  return hidden;
}

TensorSpec Cache() {
  TensorSpec cache;
  cache.name = "cache";
  cache.dtype = "int8";
  cache.shape = {kDynamic, 3};
  cache.names = {"past", ""};
  return cache;
}

Manifest NetworkWith(const std::vector<TensorSpec>& states, const std::string& function = "") {
  Manifest manifest;
  manifest.states = manifest.next_states = states;
  manifest.function = function;
  return manifest;
}

// A network with the states h, float32[2], and cache, int8[past, 3].
PackageManifest Network() { return PackageOf(std::string(64, 'a'), {NetworkWith({Hidden(), Cache()})}); }

// Functions that share cache; the second one has h, too.
PackageManifest Functions() {
  return PackageOf(std::string(64, 'f'), {NetworkWith({Cache()}, "prefill"), NetworkWith({Cache(), Hidden()}, "decode")});
}

StateValues Values() {
  return {Tensor{"float32", {2}, {0, 0, 128, 63, 255, 255, 255, 255}}, Tensor{"int8", {1, 3}, {1, 2, 3}}};
}

std::string TextOf(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

// What the bytes are refused for; empty if they are accepted.
std::string Problem(const std::string& bytes, const PackageManifest& manifest = Network()) {
  try {
    ReadSnapshot(manifest, bytes.data(), bytes.size());
    return "";
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::kInput);
    const std::string text = error.what();
    REQUIRE(text.rfind("snapshot: ", 0) == 0);
    return text.substr(10, text.find('\n') - 10);
  }
}

}  // namespace

TEST_CASE("a snapshot has the header that Python writes, and the data behind it") {
  CHECK(TextOf(WriteSnapshot(Network(), Values())) ==
        "TVMAKE-STATE-1\n{\"package\":\"" + std::string(64, 'a') +
            "\",\"sha256\":\"d05d897f63eb8a4f762365ddd8817531d1f67df06bab2b251b0f12e9f317b3a0\",\"states\":["
            "{\"dtype\":\"float32\",\"name\":\"h \\\"\xC3\xA9\\\"\\n\\u0001\",\"shape\":[2]},"
            "{\"dtype\":\"int8\",\"name\":\"cache\",\"shape\":[1,3]}]}\n" +
            std::string({0, 0, '\x80', '\x3F', '\xFF', '\xFF', '\xFF', '\xFF', 1, 2, 3}));
}

TEST_CASE("a snapshot gives the same values back") {
  const std::vector<uint8_t> bytes = WriteSnapshot(Network(), Values());
  const StateValues values = ReadSnapshot(Network(), bytes.data(), bytes.size());
  REQUIRE(values.size() == 2);
  for (std::size_t index = 0; index < 2; ++index) {
    CHECK(values[index]->dtype == Values()[index]->dtype);
    CHECK(values[index]->shape == Values()[index]->shape);
    CHECK(values[index]->data == Values()[index]->data);
  }
}

TEST_CASE("states that have not begun are none") {
  const std::vector<uint8_t> bytes = WriteSnapshot(Network(), StateValues(2));
  CHECK(TextOf(bytes) ==
        "TVMAKE-STATE-1\n{\"package\":\"" + std::string(64, 'a') +
            "\",\"sha256\":\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\",\"states\":[]}\n");
  CHECK_FALSE(ReadSnapshot(Network(), bytes.data(), bytes.size())[0].has_value());
}

TEST_CASE("a snapshot of functions names those of each state, and leaves out states that have not begun") {
  const std::vector<uint8_t> bytes = WriteSnapshot(Functions(), {Values()[1], std::nullopt});
  CHECK(TextOf(bytes) == "TVMAKE-STATE-1\n{\"package\":\"" + std::string(64, 'f') +
                             "\",\"sha256\":\"039058c6f2c0cb492c533b0a4d14ef77cc0f78abccced5287d84a1a2011cfb81\",\"states\":["
                             "{\"dtype\":\"int8\",\"functions\":[\"prefill\",\"decode\"],\"name\":\"cache\",\"shape\":[1,3]}]}\n" +
                             std::string({1, 2, 3}));
  const StateValues values = ReadSnapshot(Functions(), bytes.data(), bytes.size());
  REQUIRE(values.size() == 2);
  CHECK(values[0]->data == std::vector<uint8_t>{1, 2, 3});
  CHECK_FALSE(values[1].has_value());
  const std::string only_hidden = TextOf(WriteSnapshot(Functions(), {std::nullopt, Values()[0]}));
  CHECK(Problem(only_hidden, Functions()) == "");
  CHECK(Problem(TextOf(WriteSnapshot(Functions(), {Values()[1], Values()[0]})), Functions()) == "");
  for (const std::string& whole : {TextOf(bytes), only_hidden}) {
    for (std::size_t at = 0; at < whole.size(); ++at) {
      CHECK(Problem(whole.substr(0, at), Functions()) != "");
      std::string altered = whole;
      altered[at] = static_cast<char>(altered[at] ^ 1);
      CHECK(Problem(altered, Functions()) != "");
    }
  }
}

TEST_CASE("a network's states begin together") {
  const std::string part = TextOf(WriteSnapshot(Network(), {std::nullopt, Values()[1]}));
  CHECK(Problem(part) == "is altered: its header has other states");
}

TEST_CASE("another package's snapshot is refused") {
  PackageManifest other = Network();
  other.own_sha256 = std::string(64, 'b');
  CHECK(Problem(TextOf(WriteSnapshot(Network(), Values())), other) ==
        "belongs to another package: its sha256 begins with aaaaaaaaaaaa, this one's with bbbbbbbbbbbb");
}

TEST_CASE("every part of a snapshot is refused, and what is longer") {
  const std::string whole = TextOf(WriteSnapshot(Network(), Values()));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK(Problem(whole.substr(0, size)) != "");
  }
  CHECK(Problem(whole.substr(0, 5)) == "is not a snapshot of a package's states");
  CHECK(Problem(whole.substr(0, 100)) == "is truncated: its header has no end");
  CHECK(Problem(whole.substr(0, whole.size() - 1)) == "is truncated: 10 bytes of states, expected 11");
  CHECK(Problem(whole + "x") == "is altered: 12 bytes of states, expected 11");
}

TEST_CASE("a snapshot of which any bit was altered is refused") {
  const std::string whole = TextOf(WriteSnapshot(Network(), Values()));
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string altered = whole;
      altered[at] = static_cast<char>(altered[at] ^ (1 << bit));
      CAPTURE(at);
      CAPTURE(bit);
      CHECK(Problem(altered) != "");
    }
  }
  std::string altered = whole;
  altered.back() = 4;
  CHECK(Problem(altered) == "is altered: its content differs from its own digest");
}

TEST_CASE("a header with states that the package does not have is refused") {
  const std::string begin = "TVMAKE-STATE-1\n{\"package\":\"" + std::string(64, 'a') + "\",";
  for (const std::string& rest : {
           std::string("\"sha256\":\"\",\"states\":[{\"dtype\":\"int8\",\"name\":\"cache\",\"shape\":[1,3]}]}\n123"),
           std::string("\"sha256\":\"\",\"states\":{}}\n"), std::string("\"states\":[]}\n"),
           std::string("\"sha256\":\"\",\"states\":[") + std::string(100000, '[') + "\n"}) {
    CHECK(Problem(begin + rest).rfind("is altered: its header ", 0) == 0);
  }
  StateValues large = Values();
  large[1]->shape = {int64_t{1} << 50, 3};
  CHECK_THROWS_AS(ReadSnapshot(Network(), WriteSnapshot(Network(), large).data(), 1000), Error);
}
