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
  const Options options = Parse({});
  CHECK(options.host == "127.0.0.1");
  CHECK(options.port == 9090);
  CHECK(options.tracker_host.empty());
  CHECK(options.session_timeout_s == 3600);
  CHECK(options.cache_mb == 1024);
  CHECK_FALSE(options.is_remote_allowed);
}

TEST_CASE("all options") {
  const Options options = Parse({"--host",
                                 "::1",
                                 "--port",
                                 "0",
                                 "--port-end",
                                 "9",
                                 "--tracker",
                                 "tracker:9190",
                                 "--key",
                                 "board",
                                 "--custom-addr",
                                 "1.2.3.4",
                                 "--session-timeout",
                                 "1.5",
                                 "--workdir",
                                 "w",
                                 "--cache",
                                 "c",
                                 "--cache-mb",
                                 "7",
                                 "--threads",
                                 "2",
                                 "--load-library",
                                 "a.so",
                                 "--allow-remote"});
  CHECK(options.host == "::1");
  CHECK(options.port == 0);
  CHECK(options.port_end == 9);
  CHECK(options.tracker_host == "tracker");
  CHECK(options.tracker_port == 9190);
  CHECK(options.key == "board");
  CHECK(options.announced_address == "1.2.3.4");
  CHECK(options.session_timeout_s == 1.5);
  CHECK(options.work_directory == "w");
  CHECK(options.cache_directory == "c");
  CHECK(options.cache_mb == 7);
  CHECK(options.threads == 2);
  CHECK(options.libraries == std::vector<std::string>{"a.so"});
  CHECK(options.is_remote_allowed);
}

TEST_CASE("addresses of trackers") {
  const Options options = Parse({"--tracker", "[::1]:9190", "--key", "k"});
  CHECK(options.tracker_host == "::1");
  CHECK(options.tracker_port == 9190);
  for (const char* address :
       {"", "tracker", ":9190", "tracker:", "tracker:0", "tracker:65536", "tracker:x", "tracker:9190x"}) {
    CAPTURE(address);
    CHECK(Problem({"--tracker", address, "--key", "k"}).rfind("--tracker: expected ", 0) == 0);
  }
  CHECK(Problem({"--tracker", "tracker:9190"}) == "--tracker needs --key");
}

TEST_CASE("numbers are refused outside their bounds") {
  CHECK(Problem({"--port", "65536"}) == "--port: expected a whole number from 0 to 65535 (got '65536')");
  CHECK(Problem({"--port", "-1"}) == "--port: expected a whole number from 0 to 65535 (got '-1')");
  CHECK(Problem({"--threads", "4294967297"}) == "--threads: expected a whole number from 1 to 4096 (got '4294967297')");
  CHECK(Problem({"--port", "20", "--port-end", "20"}) == "--port-end has to be above --port");
  for (const char* seconds : {"", "0", "-1", "nan", "inf", "1e9", "1s"}) {
    CAPTURE(seconds);
    CHECK(Problem({"--session-timeout", seconds}) ==
          "--session-timeout: expected seconds (got '" + std::string(seconds) + "')");
  }
}

TEST_CASE("keys that would break the tracker's messages are refused") {
  for (const char* key : {"a b", "a:b", "a\"b", "a\\b", "a\nb", "\t"}) {
    CAPTURE(key);
    CHECK(Problem({"--key", key}).rfind("--key: expected a name without", 0) == 0);
  }
  CHECK(Problem({"--key", "Gerät_1.a-b"}) == "");
}
