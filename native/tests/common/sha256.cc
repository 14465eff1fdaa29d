#include "sha256.h"

#include <doctest/doctest.h>

#include <string>

using tvmake::DigestOf;
using tvmake::Sha256;

TEST_CASE("sha256 of the examples in FIPS 180-4") {
  CHECK(DigestOf("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(DigestOf("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(DigestOf("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(DigestOf(std::string(1000000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("sha256 does not depend on how the bytes are cut") {
  for (std::size_t size : {0, 1, 55, 56, 57, 63, 64, 65, 119, 120, 127, 128, 129, 1000}) {
    std::string bytes;
    for (std::size_t i = 0; i < size; ++i) bytes.push_back(static_cast<char>(i * 37));
    const std::string expected = DigestOf(bytes);
    for (std::size_t step : {1, 3, 63, 64, 65}) {
      Sha256 sha256;
      for (std::size_t at = 0; at < size; at += step) sha256.Add(bytes.data() + at, std::min(step, size - at));
      CAPTURE(size);
      CAPTURE(step);
      CHECK(sha256.Hex() == expected);
    }
  }
}
