#include "command_line.h"

#include <doctest/doctest.h>

#include "arguments.h"

using namespace tvmake;
using tvmake::testing::Arguments;

TEST_CASE("flags and their values come in order") {
  Arguments arguments({"--a", "1", "--b", "--c", "text"});
  CommandLine line(arguments.count(), arguments.values());
  REQUIRE(line.Next());
  CHECK(line.flag() == "--a");
  CHECK(line.WholeNumber(0) == 1);
  REQUIRE(line.Next());
  CHECK(line.flag() == "--b");
  REQUIRE(line.Next());
  CHECK(line.Value() == "text");
  CHECK_FALSE(line.Next());
  CHECK_FALSE(line.Next());
}

TEST_CASE("a flag at the end lacks its value") {
  Arguments arguments({"--a"});
  CommandLine line(arguments.count(), arguments.values());
  REQUIRE(line.Next());
  CHECK_THROWS_WITH_AS(line.Value(), "--a: a value is missing", UsageError);
}

TEST_CASE("a program that was started without even its name has no flags") {
  CommandLine line(0, nullptr);
  CHECK_FALSE(line.Next());
}

TEST_CASE("whole numbers are refused outside their bounds, with text after them, and beyond 64 bits") {
  CHECK(WholeNumber("--n", "-3", -5) == -3);
  CHECK(WholeNumber("--n", "65535", 1, 65535) == 65535);
  CHECK_THROWS_WITH_AS(WholeNumber("--n", "65536", 1, 65535),
                       "--n: expected a whole number from 1 to 65535 (got '65536')", UsageError);
  for (const char* text : {"", "0", "1.5", "2x", "0x10", "9223372036854775808", "99999999999999999999999"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(WholeNumber("--n", text, 1),
                         (std::string("--n: expected a whole number of 1 or more (got '") + text + "')").c_str(),
                         UsageError);
  }
}
