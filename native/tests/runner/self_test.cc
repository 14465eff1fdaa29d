#include "self_test.h"

#include <doctest/doctest.h>

using namespace tvmake;

TEST_CASE("a line says how large the error is, and which goals are missed") {
  Figures figures;
  figures.sqnr_db = 12.34;
  figures.max_abs = 0.5;
  figures.max_abs_rms = 0.25;
  CHECK(SelfTestLine(1, "y", figures, {{"sqnr_db", 10}}) ==
        "sample 1  y  SQNR 12.3 dB (goal 10), largest error 0.5, 0.25 of the RMS  ok");
  CHECK(SelfTestLine(0, "y", figures, {{"max_abs_rms", 0.01}}) ==
        "sample 0  y  SQNR 12.3 dB, largest error 0.5, 0.25 of the RMS (goal 0.01)  WRONG: misses max_abs_rms");
  figures.nonfinite_mismatches = 3;
  CHECK(SelfTestLine(0, "y", figures, {{"max_abs_rms", 1}}) ==
        "sample 0  y  elements that are NaN or infinite on one side only: 3  WRONG: misses finite");
  figures.nonfinite_mismatches = 0;
  figures.is_discrete = true;
  figures.equal = 0.5;
  CHECK(SelfTestLine(0, "y", figures, {{"equal", 1}}) ==
        "sample 0  y  equal 50.00% (goal 100.00%)  WRONG: misses equal");
  CHECK(SelfTestLine(0, "y", figures, {{"sqnr_db", 10}}) == "sample 0  y  equal 50.00%  no goal");
}

TEST_CASE("a package without samples is refused with the reason and a remedy") {
  Manifest manifest;
  const auto refusal = [&] {
    try {
      RequireSelfTest(manifest, "p");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refusal().find("p: has no self-test\n  rebuild it") == 0);
  manifest.self_test.why_not = "a sample has 9 MB";
  CHECK(refusal().find("p: has no self-test: a sample has 9 MB\n") == 0);
  manifest.self_test.samples = 1;
  CHECK(refusal().find("p: has no self-test: it states no bounds") == 0);
  manifest.self_test.goals = {{"equal", 1}};
  CHECK(refusal() == "");
}
