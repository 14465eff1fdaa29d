#include "slabs.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "device.h"
#include "driver.h"

using namespace tvmake::opencl;
using tvmake::testing::FakeDriver;
using tvmake::testing::GetFakeDriver;

namespace {

// How many buffers the driver made while a function ran.
template <typename Function>
int NewBuffers(Function function) {
  const int before = GetFakeDriver().buffers;
  function();
  return GetFakeDriver().buffers - before;
}

}  // namespace

TEST_CASE("only small buffers are parts of larger ones") {
  CHECK(Slabs::IsFor(0));
  CHECK(Slabs::IsFor(Slabs::kLargest));
  CHECK_FALSE(Slabs::IsFor(Slabs::kLargest + 1));
}

TEST_CASE("parts are aligned, large enough, and do not overlap, in whatever order they come and go") {
  FakeDriver& driver = GetFakeDriver();
  Slabs slabs(&GetDevice(0));
  std::vector<Slabs::Region> held;
  std::mt19937 random(3);
  for (int step = 0; step < 20000; ++step) {
    if (held.empty() || (random() % 5 < 3 && held.size() < 200)) {
      const size_t bytes = random() % (Slabs::kLargest + 1);
      const Slabs::Region region = slabs.Take(bytes);
      if (region.bytes < bytes || region.bytes == 0 || region.bytes >= bytes + 2 * FakeDriver::kAlignment) {
        CAPTURE(bytes);
        FAIL("a part of the wrong size");
      }
      held.push_back(region);
    } else {
      const size_t index = random() % held.size();
      slabs.Give(held[index]);
      held[index] = held.back();
      held.pop_back();
    }
  }
  for (const Slabs::Region& region : held) slabs.Give(region);
  CHECK(driver.violations == 0);
}

TEST_CASE("neighbours that come back are joined") {
  Slabs slabs(&GetDevice(0));
  const auto fill = [&] {
    std::vector<Slabs::Region> regions;
    for (size_t i = 0; i < Slabs::kSlabBytes / Slabs::kLargest; ++i) regions.push_back(slabs.Take(Slabs::kLargest));
    return regions;
  };
  std::vector<Slabs::Region> regions;
  CHECK(NewBuffers([&] { regions = fill(); }) == 1);
  for (const bool is_even : {true, false}) {
    for (size_t i = is_even ? 0 : 1; i < regions.size(); i += 2) slabs.Give(regions[i]);
  }
  CHECK(NewBuffers([&] { regions = fill(); }) == 0);
  CHECK(NewBuffers([&] { regions.push_back(slabs.Take(1)); }) == 1);
  for (const Slabs::Region& region : regions) slabs.Give(region);
}

TEST_CASE("one empty buffer is kept, the others go back to the driver") {
  FakeDriver& driver = GetFakeDriver();
  Slabs slabs(&GetDevice(0));
  const size_t before = driver.UsedBytes();
  std::vector<Slabs::Region> regions;
  for (int i = 0; i < 100; ++i) regions.push_back(slabs.Take(Slabs::kLargest));
  CHECK(driver.UsedBytes() - before == 7 * Slabs::kSlabBytes);
  for (const Slabs::Region& region : regions) slabs.Give(region);
  CHECK(driver.UsedBytes() - before == Slabs::kSlabBytes);
  CHECK(NewBuffers([&] { slabs.Give(slabs.Take(100)); }) == 0);
  CHECK(driver.violations == 0);
}
