#include "figures.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

using namespace tvmake;

namespace {

template <typename Value>
Tensor Of(const std::string& dtype, const std::vector<Value>& values) {
  Tensor tensor{dtype, {static_cast<int64_t>(values.size())}, {}};
  tensor.data.resize(values.size() * sizeof(Value));
  if (!values.empty()) std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
  return tensor;
}

Tensor Floats(const std::vector<float>& values) { return Of("float32", values); }

using Missed = std::vector<std::string>;

}  // namespace

TEST_CASE("equal values have no error") {
  const Figures figures = Compare(Floats({1, -2, 3}), Floats({1, -2, 3}), {});
  CHECK(figures.sqnr_db == 200);
  CHECK(figures.cosine == doctest::Approx(1));
  CHECK(figures.max_abs == 0);
  CHECK(MissedGoals(figures, {{"sqnr_db", 200}, {"max_abs", 0}, {"rtol", 0}}) == Missed());
}

TEST_CASE("errors are measured against the reference") {
  // The power of the reference is 25, of the error 0.25; its RMS is sqrt(12.5).
  const Figures figures = Compare(Floats({3, 4}), Floats({3, 4.5}), {{"atol", 0.1}, {"rtol", 0.1}});
  CHECK(figures.sqnr_db == doctest::Approx(20));
  CHECK(figures.max_abs == doctest::Approx(0.5));
  CHECK(figures.max_abs_rms == doctest::Approx(0.5 / std::sqrt(12.5)));
  CHECK(figures.max_rel == doctest::Approx(0.125));
  CHECK(figures.beyond_tolerance == 0);
  CHECK(Compare(Floats({3, 4}), Floats({3, 4.5}), {{"rtol", 0.1}}).beyond_tolerance == 1);
  CHECK(MissedGoals(figures, {{"sqnr_db", 19}, {"max_rel", 0.2}}) == Missed());
  CHECK(MissedGoals(figures, {{"sqnr_db", 21}, {"max_abs", 0.4}}) == Missed({"max_abs", "sqnr_db"}));
}

TEST_CASE("small references count as a share of the largest") {
  CHECK(Compare(Floats({100, 0}), Floats({100, 1}), {}).max_rel == doctest::Approx(1));
  CHECK(Compare(Floats({0, 0}), Floats({0, 1}), {}).max_rel == 1);
}

TEST_CASE("NaN on one side only is wrong with any goals") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  CHECK(MissedGoals(Compare(Floats({1, nan, inf}), Floats({1, nan, inf}), {}), {}) == Missed());
  CHECK(MissedGoals(Compare(Floats({1, 1}), Floats({1, nan}), {}), {}) == Missed({"finite"}));
  CHECK(MissedGoals(Compare(Floats({1, inf}), Floats({1, -inf}), {}), {}) == Missed({"finite"}));
}

TEST_CASE("half precisions are read as what they mean") {
  const Tensor half = Of<uint16_t>("float16", {0x3c00, 0xc000, 0x3555, 0x0001});
  CHECK(Compare(Floats({1, -2, 0.333251953125, 5.9604644775390625e-08}), half, {}).max_abs == 0);
  const Tensor brain = Of<uint16_t>("bfloat16", {0x3f80, 0xc000});
  CHECK(Compare(Floats({1, -2}), brain, {}).max_abs == 0);
}

TEST_CASE("integers are compared without conversion, and only equality counts") {
  const Goals goals = {{"equal", 0.75}, {"sqnr_db", 200}};
  const Tensor large = Of<int64_t>("int64", {(int64_t{1} << 60) + 1, -5, 0, 7});
  const Tensor other = Of<int64_t>("int64", {int64_t{1} << 60, -5, 0, 7});
  const Figures figures = Compare(large, other, goals);
  CHECK(figures.equal == 0.75);
  CHECK(MissedGoals(figures, goals) == Missed());
  CHECK(MissedGoals(figures, {{"equal", 1}}) == Missed({"equal"}));
  CHECK(Compare(Of<int32_t>("int32", {3, -1}), Of<int64_t>("int64", {3, -1}), {}).equal == 1);
  CHECK(Compare(Of<uint8_t>("bool", {1, 0}), Of<uint8_t>("bool", {1, 1}), {}).equal == 0.5);
}

TEST_CASE("what this program cannot judge is refused") {
  CHECK_THROWS_AS(Compare(Of<uint8_t>("float8_e4m3fn", {1}), Floats({1}), {}), Error);
  CHECK_THROWS_AS(MissedGoals(Figures(), {{"top1", 1}}), Error);
}

TEST_CASE("an output without elements is right") {
  CHECK(MissedGoals(Compare(Floats({}), Floats({}), {}), {{"sqnr_db", 60}, {"equal", 1}}) == Missed());
}
