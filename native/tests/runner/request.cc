#include "request.h"

#include <doctest/doctest.h>

#include <string>

#include "temporary_directory.h"
#include "tvmake/package.h"

using namespace tvmake;
using namespace tvmake::testing;

namespace {

class RequestFile {
 public:
  explicit RequestFile(const std::string& text) { WriteFile(path(), text); }
  std::string path() const { return directory_ / "request.json"; }
  Request Read() const { return ReadRequest(path()); }
  std::string Problem() const {
    try {
      Read();
      return "";
    } catch (const Error& error) {
      return std::string(error.what()).substr(path().size() + 2);
    }
  }

 private:
  TemporaryDirectory directory_;
};

}  // namespace

TEST_CASE("a request without a measurement only runs") {
  const Request request = RequestFile(R"({"samples": 4, "want_outputs": false, "measurement": null})").Read();
  CHECK(request.samples == 4);
  CHECK(request.steps == 0);
  CHECK_FALSE(request.want_outputs);
  CHECK_FALSE(request.repeat_first);
  CHECK_FALSE(request.measurement.has_value());
}

TEST_CASE("fields of the measurement that are left out keep their defaults") {
  const Request request =
      RequestFile(R"({"samples": 1, "measurement": {"repeat": 9, "cooldown_s": 0.5, "percentile": 90}})").Read();
  REQUIRE(request.measurement.has_value());
  CHECK(request.measurement->repeat == 9);
  CHECK(request.measurement->cooldown_s == 0.5);
  CHECK(request.measurement->warmup == 3);
}

TEST_CASE("samples are divided into sequences") {
  CHECK(RequestFile(R"({"samples": 6, "steps": 3})").Read().steps == 3);
}

TEST_CASE("what this program does not know is refused, not ignored") {
  CHECK(RequestFile(R"({"samples": 1, "speed": 2})").Problem() ==
        "speed is not known to this program\n  use the runner of the same version of tvmake");
  CHECK(RequestFile(R"({"samples": 1, "measurement": {"a\nb": 2}})").Problem().find("measurement.a?b is not known") ==
        0);
}

TEST_CASE("damaged requests are refused") {
  for (const char* text :
       {"", "{", "[]", "3", "null", R"({"samples": "many"})", R"({"samples": 0})", R"({"samples": -1})", "{}",
        R"({"samples": 1, "steps": -1})",
        R"({"samples": 1, "measurement": []})", R"({"samples": 1, "measurement": {"repeat": 0}})",
        R"({"samples": 1, "measurement": {"warmup": -1}})", R"({"samples": 1, "measurement": {"cooldown_s": -0.1}})"}) {
    CAPTURE(text);
    CHECK(RequestFile(text).Problem() != "");
  }
  CHECK(RequestFile(std::string(100000, '[')).Problem() != "");
}
