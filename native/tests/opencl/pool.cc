#include "pool.h"

#include <doctest/doctest.h>
#include <tvm/ffi/error.h>

#include "device.h"
#include "driver.h"
#include "texture.h"

using namespace tvmake::opencl;
using tvmake::testing::FakeDriver;
using tvmake::testing::GetFakeDriver;

namespace {

constexpr size_t kKiB = 1024;

constexpr DLDataType kFloat = {kDLFloat, 32, 1};

}  // namespace

TEST_CASE("a buffer is used again unless a quarter of it would be wasted") {
  Pool pool(&GetDevice(0));
  Memory* memory = pool.TakeBuffer(100 * kKiB);
  CHECK(memory->bytes() == 100 * kKiB);
  pool.Give(memory);
  Memory* small = pool.TakeBuffer(74 * kKiB);  // 76 KiB in pages; more than a quarter less would be 75
  CHECK(small == memory);
  pool.Give(small);
  Memory* smaller = pool.TakeBuffer(72 * kKiB);
  CHECK(smaller != memory);
  Memory* larger = pool.TakeBuffer(101 * kKiB);
  CHECK(larger != memory);
  CHECK(pool.HeldBytes() == (100 + 72 + 104) * kKiB);
  for (Memory* used : {smaller, larger}) pool.Give(used);
  pool.Trim();
  CHECK(pool.HeldBytes() == 0);
}

TEST_CASE("the smallest buffer that is large enough is taken") {
  Pool pool(&GetDevice(0));
  Memory* large = pool.TakeBuffer(120 * kKiB);
  Memory* right = pool.TakeBuffer(104 * kKiB);
  pool.Give(large);
  pool.Give(right);
  CHECK(pool.TakeBuffer(100 * kKiB) == right);
  CHECK(pool.TakeBuffer(100 * kKiB) == large);
  pool.Give(large);
  pool.Give(right);
  pool.Trim();
}

TEST_CASE("nearly equal sizes share their pages, small ones are not rounded") {
  Pool pool(&GetDevice(0));
  Memory* memory = pool.TakeBuffer(100 * kKiB - 3);
  CHECK(memory->bytes() == 100 * kKiB);
  Memory* small = pool.TakeBuffer(5);
  CHECK(small->bytes() == 5);
  CHECK(small->is_part());
  pool.Give(memory);
  pool.Give(small);
  pool.Trim();
}

TEST_CASE("storage that is never used as a buffer costs nothing") {
  FakeDriver& driver = GetFakeDriver();
  const int before = driver.buffers;
  Pool pool(&GetDevice(0));
  Memory* memory = pool.TakeBuffer(size_t{1} << 50);
  pool.Give(memory);
  CHECK(driver.buffers == before);
  pool.Trim();
  CHECK(driver.violations == 0);
}

TEST_CASE("textures are used again for exactly the same shape") {
  FakeDriver& driver = GetFakeDriver();
  const int before = driver.images;
  Pool pool(&GetDevice(0));
  const ImageShape shape = TextureShape(8, 4, 2, kFloat), turned = TextureShape(4, 8, 2, kFloat);
  REQUIRE(shape.bytes() == turned.bytes());
  Memory* image = pool.TakeImage(shape);
  pool.Give(image);
  Memory* other = pool.TakeImage(turned);
  CHECK(other != image);
  CHECK(pool.TakeImage(shape) == image);
  CHECK(driver.images == before + 2);
  CHECK(pool.HeldBytes() == 2 * shape.bytes());
  pool.Give(image);
  pool.Give(other);
  pool.Trim();
  CHECK(pool.HeldBytes() == 0);
}

TEST_CASE("when memory is short, what is unused is given up first") {
  FakeDriver& driver = GetFakeDriver();
  Device& device = GetDevice(0);
  device.pool().Trim();
  driver.capacity = driver.UsedBytes() + 300 * kKiB;
  Memory* first = device.pool().TakeBuffer(200 * kKiB);
  first->handle();
  SUBCASE("unused memory makes room") {
    device.pool().Give(first);
    Memory* second = Memory::Buffer(&device, 250 * kKiB);
    CHECK(second->handle() != nullptr);
    delete second;
  }
  SUBCASE("used memory does not, and the error says how much there is") {
    CHECK_THROWS_AS(Memory::Buffer(&device, 250 * kKiB), tvm::ffi::Error);
    try {
      Memory::Buffer(&device, 250 * kKiB);
    } catch (const tvm::ffi::Error& error) {
      CHECK(std::string(error.message()) ==
            "OpenCL: cannot allocate a buffer of 250.0 KiB on 'Fake' (it has 1024.0 MiB, 1024.0 MiB at most in one "
            "piece): CL_MEM_OBJECT_ALLOCATION_FAILURE (-4)");
    }
    device.pool().Give(first);
  }
  device.pool().Trim();
  driver.capacity = size_t{1} << 40;
  CHECK(driver.violations == 0);
}

TEST_CASE("a texture beyond the device's limits is refused before the driver is called") {
  FakeDriver& driver = GetFakeDriver();
  const int before = driver.images;
  Device& device = GetDevice(0);
  for (const ImageShape& shape : {TextureShape(FakeDriver::kImageWidth + 1, 1, 1, kFloat),
                                  TextureShape(1, FakeDriver::kImageHeight + 1, 1, kFloat),
                                  TextureShape(1, 1, FakeDriver::kImageLayers + 1, kFloat)}) {
    CHECK_THROWS_AS(Memory::Image(&device, shape), tvm::ffi::Error);
  }
  CHECK(driver.images == before);
  delete Memory::Image(
      &device, TextureShape(FakeDriver::kImageWidth, FakeDriver::kImageHeight, FakeDriver::kImageLayers, kFloat));
  delete Memory::Image(&device, TextureShape(size_t{0}, size_t{0}, size_t{0}, kFloat));
  CHECK(driver.violations == 0);
}
