#include "options.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "arguments.h"

using namespace tvmake;
using tvmake::testing::Arguments;

namespace {

Options Parse(std::vector<std::string> words) {
  Arguments arguments(std::move(words));
  return ParseOptions(arguments.count(), arguments.values());
}

std::string Problem(std::vector<std::string> words) {
  try {
    Parse(std::move(words));
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("defaults") {
  const Options options = Parse({"--package", "p"});
  CHECK(options.package == "p");
  CHECK(options.device.empty());
  CHECK(options.threads == 0);
  CHECK(options.samples == 1);
  CHECK(options.measurement.warmup == 3);
  CHECK(options.measurement.repeat == 20);
  CHECK_FALSE(options.measurement.profile_ops);
}

TEST_CASE("all options") {
  const Options options = Parse({"--package",
                                 "p",
                                 "--device",
                                 "opencl",
                                 "--threads",
                                 "2",
                                 "--samples",
                                 "3",
                                 "--steps",
                                 "2",
                                 "--warmup",
                                 "0",
                                 "--runs",
                                 "7",
                                 "--number",
                                 "5",
                                 "--min-repeat-ms",
                                 "1.5",
                                 "--min-duration",
                                 "2",
                                 "--cooldown",
                                 "0.25",
                                 "--profile",
                                 "--inputs",
                                 "in",
                                 "--outputs",
                                 "out",
                                 "--result",
                                 "res",
                                 "--load-library",
                                 "a.so",
                                 "--load-library",
                                 "b.so",
                                 "--dim",
                                 "n=4"});
  CHECK(options.device == "opencl");
  CHECK(options.threads == 2);
  CHECK(options.samples == 3);
  CHECK(options.steps == 2);
  CHECK(options.measurement.warmup == 0);
  CHECK(options.measurement.repeat == 7);
  CHECK(options.measurement.number == 5);
  CHECK(options.measurement.min_repeat_ms == 1.5);
  CHECK(options.measurement.min_duration_s == 2);
  CHECK(options.measurement.cooldown_s == 0.25);
  CHECK(options.measurement.profile_ops);
  CHECK(options.inputs == "in");
  CHECK(options.outputs == "out");
  CHECK(options.result == "res");
  CHECK(options.libraries == std::vector<std::string>{"a.so", "b.so"});
  CHECK(options.extents.at("n") == 4);
}

TEST_CASE("help and version need nothing else") {
  CHECK(Parse({"--help"}).is_help);
  CHECK(Parse({"-h", "--nonsense"}).is_help);
  CHECK(Parse({"--version"}).is_version);
}

TEST_CASE("command lines that make no sense are refused in one line") {
  CHECK(Problem({}) == "--package is missing; --help lists the options");
  CHECK(Problem({"--package"}) == "--package: a value is missing");
  CHECK(Problem({"--package", "p", "--speed", "9"}) == "--speed: no such option; --help lists them");
  CHECK(Problem({"--package", "p", "--runs", "0"}) == "--runs: expected a whole number of 1 or more (got '0')");
  CHECK(Problem({"--package", "p", "--cooldown", "nan"}) == "--cooldown: expected a number of 0 or more (got 'nan')");
  CHECK(Problem({"--package", "p", "--cooldown", "-1"}) == "--cooldown: expected a number of 0 or more (got '-1')");
  CHECK(Problem({"--package", "p", "--dim", "n"}) == "--dim: expected NAME=N (got 'n')");
  CHECK(Problem({"--package", "p", "--dim", "=3"}) == "--dim: expected NAME=N (got '=3')");
  CHECK(Problem({"--package", "p", "--dim", "n=-3"}) == "--dim: expected a whole number of 0 or more (got '-3')");
}

TEST_CASE("a request and options that it overrules do not go together") {
  CHECK(Problem({"--package", "p", "--request", "r"}) == "--request needs --result");
  CHECK(Problem({"--package", "p", "--request", "r", "--result", "s", "--runs", "3"}) ==
        "--runs: the request says that already");
  CHECK(Problem({"--package", "p", "--request", "r", "--result", "s", "--threads", "3"}) == "");
}

TEST_CASE("a self-test takes nothing that it has of its own") {
  CHECK(Parse({"--package", "p", "--self-test", "--device", "cpu", "--threads", "1"}).is_self_test);
  CHECK(Problem({"--package", "p", "--self-test", "--inputs", "in.npz"}) ==
        "--inputs: the self-test has inputs and outputs of its own");
  CHECK(Problem({"--self-test"}) == "--package is missing; --help lists the options");
}
