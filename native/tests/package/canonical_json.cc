#include "canonical_json.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

using tvmake::CanonicalJsonWithout;

TEST_CASE("keys are sorted, spaces go, numbers and strings keep their spelling") {
  CHECK(CanonicalJsonWithout(R"( { "b" : [ 1.50 , -2e3, true , null ] , "a" : "x \" y" } )", "") ==
        R"({"a":"x \" y","b":[1.50,-2e3,true,null]})");
  CHECK(CanonicalJsonWithout(R"({"ab": 1, "a": 2, "": 3})", "absent") == R"({"":3,"a":2,"ab":1})");
  CHECK(CanonicalJsonWithout("[]", "") == "[]");
  CHECK(CanonicalJsonWithout("{}", "") == "{}");
}

TEST_CASE("a key is left out of the outermost object only") {
  CHECK(CanonicalJsonWithout(R"({"a": {"own": 1}, "own": 2})", "own") == R"({"a":{"own":1}})");
}

TEST_CASE("input that is not JSON is refused") {
  for (const char* text : {"", " ", "{", "[", "\"", "\"\\", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\" 1}", "{a:1}",
                           "[1,]", "[1 2]", "{\"a\":1,}", "{} {}", "]", "}", ",", ":"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(CanonicalJsonWithout(text, ""), std::invalid_argument);
  }
}

TEST_CASE("every cut of a document is refused") {
  const std::string text = R"({"a":[{"b":"\"c\\"},1.5,{}],"d":{"e":[]}})";
  CHECK(CanonicalJsonWithout(text, "") == text);
  for (std::size_t size = 0; size < text.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(CanonicalJsonWithout(text.substr(0, size), ""), std::invalid_argument);
  }
}

TEST_CASE("nesting that would exhaust the stack is refused") {
  CHECK_NOTHROW(CanonicalJsonWithout(std::string(100, '[') + std::string(100, ']'), ""));
  CHECK_THROWS_AS(CanonicalJsonWithout(std::string(1000000, '['), ""), std::invalid_argument);
  CHECK_THROWS_AS(CanonicalJsonWithout(std::string(1000, '[') + std::string(1000, ']'), ""), std::invalid_argument);
}
