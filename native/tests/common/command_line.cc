#include "command_line.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "arguments.h"

using namespace tvmake;
using tvmake::testing::Arguments;

TEST_CASE("values go where their flags say, in the order given") {
  std::string text;
  int64_t number = 0;
  int bounded = 0;
  bool is_given = false, is_other_given = false;
  std::vector<std::string> each;
  CommandLine line;
  line.Text("--text", &text);
  line.Number("--number", &number, 1);
  line.Number("--bounded", &bounded, 0, 9);
  line.Switch("--switch", &is_given);
  line.Switch("--other", &is_other_given);
  line.Each("--each", &each);
  Arguments arguments({"--each", "--a", "--switch", "--text", "t", "--number", "7", "--bounded", "9", "--each", "b"});
  const std::vector<std::string> given = line.Parse(arguments.count(), arguments.values());
  CHECK(given == std::vector<std::string>{"--each", "--switch", "--text", "--number", "--bounded", "--each"});
  CHECK(text == "t");
  CHECK(number == 7);
  CHECK(bounded == 9);
  CHECK(is_given);
  CHECK_FALSE(is_other_given);
  CHECK(each == std::vector<std::string>{"--a", "b"});
}

TEST_CASE("a flag at the end lacks its value, and one that nobody knows is refused") {
  std::string text;
  CommandLine line;
  line.Text("--a", &text);
  Arguments without_value({"--a"}), unknown({"--b"});
  CHECK_THROWS_WITH_AS(line.Parse(without_value.count(), without_value.values()), "--a: a value is missing",
                       UsageError);
  CHECK_THROWS_WITH_AS(line.Parse(unknown.count(), unknown.values()), "--b: no such option; --help lists them",
                       UsageError);
}

TEST_CASE("nothing after --help, -h and --version is looked at") {
  for (const char* flag : {"--help", "-h", "--version"}) {
    CAPTURE(flag);
    Arguments arguments({flag, "--nonsense"});
    CHECK(CommandLine().Parse(arguments.count(), arguments.values()) == std::vector<std::string>{flag});
  }
}

TEST_CASE("a program that was started without even its name has no flags") {
  CHECK(CommandLine().Parse(0, nullptr).empty());
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
