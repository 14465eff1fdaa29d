#include "result.h"

#include <doctest/doctest.h>

#include <string>

using namespace tvmake;

namespace {

Timing Timed(std::vector<double> samples_ms) {
  Timing timing;
  timing.samples_ms = std::move(samples_ms);
  return timing;
}

Fingerprint Device() {
  Fingerprint fingerprint;
  fingerprint.details["threads"] = "1";
  return fingerprint;
}

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("percentiles lie between samples as numpy interpolates them") {
  const std::string summary = SummaryJson(Manifest(), Timed({4, 1, 3, 2}), Device());
  CAPTURE(summary);
  CHECK(Has(summary, "\"p50_ms\": 2.5"));
  CHECK(Has(summary, "\"p90_ms\": 3.7"));
  CHECK(Has(summary, "\"min_ms\": 1"));
  CHECK(Has(summary, "\"max_ms\": 4"));
  CHECK(Has(summary, "\"mean_ms\": 2.5"));
  CHECK(Has(summary, "\"std_ms\": 1.29"));
}

TEST_CASE("one sample is all its own statistics") {
  const std::string summary = SummaryJson(Manifest(), Timed({7}), Device());
  CAPTURE(summary);
  CHECK(Has(summary, "\"p99_ms\": 7"));
  CHECK(Has(summary, "\"std_ms\": 0"));
}

TEST_CASE("names that need escapes stay valid JSON") {
  Fingerprint fingerprint = Device();
  fingerprint.soc = "a \"chip\"\n";
  CHECK(Has(ResultJson(Timed({1}), fingerprint), R"("soc":"a \"chip\"\n")"));
}
