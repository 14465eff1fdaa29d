#include "states.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "extents.h"
#include "package/specs.h"
#include "tvmake/package.h"

using namespace tvmake;

namespace {

// The input x [batch, 4] and one state; next: the names of the dimensions of its next value.
Manifest Network(const std::vector<std::string>& names, const std::vector<std::string>& next) {
  Manifest manifest;
  const auto shape_of = [](const std::vector<std::string>& extents) {
    std::vector<int64_t> shape;
    for (const std::string& extent : extents) shape.push_back(extent.empty() ? 8 : kDynamic);
    return shape;
  };
  manifest.inputs = {Spec("x", {kDynamic, 4}, {"batch", ""})};
  manifest.states = {Spec("s", shape_of(names), names)};
  manifest.next_states = {Spec("s2", shape_of(next), next)};
  return manifest;
}

std::vector<int64_t> InitialShape(const Manifest& manifest) { return InitialShapes(manifest, {{3, 4}})[0]; }

int64_t Evaluated(const std::string& expression) {
  const std::map<std::string, int64_t> sizes = {{"s0", 7}, {"past_len", 5}};
  return EvaluateExtent(expression, [&](const std::string& name) {
    const auto found = sizes.find(name);
    return found == sizes.end() ? 0 : found->second;
  });
}

}  // namespace

TEST_CASE("a state begins with the inputs' sizes, a cache with its smallest, others with 1") {
  CHECK(InitialShape(Network({"", ""}, {"", ""})) == std::vector<int64_t>{8, 8});
  CHECK(InitialShape(Network({"batch", ""}, {"batch", ""})) == std::vector<int64_t>{3, 8});
  CHECK(InitialShape(Network({"batch", "past"}, {"batch", "past + 1"})) == std::vector<int64_t>{3, 0});
  CHECK(InitialShape(Network({"other"}, {"other"})) == std::vector<int64_t>{1});
  Manifest bounded = Network({"past", "other", "zero"}, {"past + 1", "other", "zero"});
  bounded.bounds = {{"past", {2, 64}}, {"other", {4, std::nullopt}}, {"zero", {0, 4}}};
  CHECK(InitialShape(bounded) == std::vector<int64_t>{2, 4, 1});
}

TEST_CASE("a size that follows from others begins with their first sizes") {
  CHECK(InitialShape(Network({"2*batch + 1"}, {"2*batch + 1"})) == std::vector<int64_t>{7});
  CHECK(InitialShape(Network({"past + batch"}, {"past + 2*batch"})) == std::vector<int64_t>{3});
  CHECK_THROWS_WITH_AS(InitialShape(Network({"max(batch, 2)"}, {"max(batch, 2)"})),
                       "states: the size 'max(batch, 2)' of state 's' is unknown to this program", Error);
}

TEST_CASE("sums, differences, products and quotients are worked out as in Python") {
  CHECK(Evaluated("2*s0 + 1") == 15);
  CHECK(Evaluated("s0 - past_len - 1") == 1);
  CHECK(Evaluated("s0*(past_len + 1)//4") == 10);
  CHECK(Evaluated("(0 - s0)//2") == -4);
  CHECK(Evaluated("s0//2*2") == 6);
  for (const std::string& wrong : {std::string("2*"), std::string("s0//0"), std::string("(s0"), std::string("s0 s0"),
                                   std::string("3.5*s0"), std::string("2a + 1"), std::string(100000, '(')}) {
    CAPTURE(wrong.substr(0, 20));
    CHECK_THROWS_AS(Evaluated(wrong), std::invalid_argument);
  }
}
