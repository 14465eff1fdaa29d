#include "extents.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "package/specs.h"

using namespace tvmake;

namespace {

// ids [batch, length], mask [batch, length], past [past, 8]
Manifest Network() {
  Manifest manifest;
  for (const char* name : {"ids", "mask"}) {
    manifest.inputs.push_back(Spec(name, {kDynamic, kDynamic}, {"batch", "length"}));
  }
  manifest.inputs.push_back(Spec("past", {kDynamic, 8}, {"past", ""}));
  manifest.bounds = {{"length", {1, 512}}, {"past", {0, 64}}, {"batch", {2, std::nullopt}}};
  return manifest;
}

}  // namespace

TEST_CASE("sizes within their bounds that agree are taken") {
  CHECK_NOTHROW(CheckExtents(Network(), {{2, 512}, {2, 512}, {0, 8}}));
  CHECK_NOTHROW(CheckExtents(Network(), {{1000000, 1}, {1000000, 1}, {64, 8}}));
}

TEST_CASE("a dimension without bounds takes any size") {
  Manifest manifest = Network();
  manifest.bounds.clear();
  CHECK_NOTHROW(CheckExtents(manifest, {{0, 100000}, {0, 100000}, {0, 8}}));
}

TEST_CASE("a size beyond its bounds is refused, and the message names it and them") {
  const Manifest manifest = Network();
  CHECK_THROWS_WITH_AS(CheckExtents(manifest, {{2, 600}, {2, 600}, {0, 8}}),
                       "inputs: length is 600 in 'ids'; this package takes 1 to 512", Error);
  CHECK_THROWS_WITH_AS(CheckExtents(manifest, {{2, 0}, {2, 0}, {0, 8}}),
                       "inputs: length is 0 in 'ids'; this package takes 1 to 512", Error);
  CHECK_THROWS_WITH_AS(CheckExtents(manifest, {{1, 7}, {1, 7}, {0, 8}}),
                       "inputs: batch is 1 in 'ids'; this package takes 2 or more", Error);
  CHECK_THROWS_WITH_AS(CheckBounds(manifest, manifest.inputs[2], {65, 8}),
                       "inputs: past is 65 in 'past'; this package takes 0 to 64", Error);
}

TEST_CASE("a size that differs between inputs is refused, and the message names both") {
  CHECK_THROWS_WITH_AS(CheckExtents(Network(), {{2, 16}, {2, 17}, {0, 8}}),
                       "inputs: length is 17 in 'mask' and 16 in 'ids'\n  give it one size", Error);
}

TEST_CASE("states have the sizes of the inputs, within their bounds") {
  Manifest manifest = Network();
  manifest.states = {Spec("cache", {kDynamic, kDynamic}, {"batch", "past"})};
  CHECK_NOTHROW(CheckExtents(manifest, {{2, 16}, {2, 16}, {0, 8}}));
  CHECK_NOTHROW(CheckExtents(manifest, {{2, 16}, {2, 16}, {5, 8}, {2, 5}}));
  CHECK_THROWS_WITH_AS(CheckExtents(manifest, {{2, 16}, {2, 16}, {5, 8}, {3, 5}}),
                       "inputs: batch is 3 in 'cache' and 2 in 'ids'\n  give it the size of the states, or reset them",
                       Error);
  manifest.inputs.pop_back();
  CHECK_THROWS_WITH_AS(CheckExtents(manifest, {{2, 16}, {2, 16}, {2, 65}}),
                       "inputs: past is 65 in 'cache'; this package takes 0 to 64\n  reset the states", Error);
}

TEST_CASE("a package with code for some shapes alone takes their sizes, and names them otherwise") {
  Manifest manifest = Network();
  manifest.shapes = {{{"batch", 2}, {"length", 16}}, {{"batch", 8}}};
  CHECK_NOTHROW(CheckExtents(manifest, {{2, 16}, {2, 16}, {0, 8}}));
  CHECK_NOTHROW(CheckExtents(manifest, {{8, 7}, {8, 7}, {0, 8}}));
  CHECK_THROWS_WITH_AS(CheckExtents(manifest, {{2, 17}, {2, 17}, {0, 8}}),
                       "inputs: {batch: 2, length: 17} is none of this package's shapes: {batch: 2, length: 16}, {batch: 8}"
                       "\n  give inputs of such sizes",
                       Error);
}
