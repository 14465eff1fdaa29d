#include "allocator.h"

#include <doctest/doctest.h>
#include <tvm/ffi/error.h>

#include "driver.h"
#include "memory.h"

using namespace tvmake::opencl;
using tvm::runtime::memory::Buffer;
using tvm::runtime::memory::kNaive;
using tvm::runtime::memory::kPooled;
using tvmake::testing::FakeDriver;
using tvmake::testing::GetFakeDriver;

namespace {

constexpr DLDevice kDevice = {kDLOpenCL, 0};
constexpr DLDataType kFloat = {kDLFloat, 32, 1};
const tvm::ffi::Shape kPixels{1, 2, 3, 5, 4};

}  // namespace

TEST_CASE("the pooled allocator keeps what comes back, the naive one does not") {
  FakeDriver& driver = GetFakeDriver();
  GetDevice(0).pool().Trim();
  OpenCLAllocator pooled(kPooled), naive(kNaive);
  const size_t held = pooled.UsedMemory();
  const Buffer first = pooled.Alloc(kDevice, 100000, 64, kFloat);
  static_cast<Memory*>(first.data)->handle();
  pooled.Free(first);
  const Buffer second = pooled.Alloc(kDevice, 100000, 64, kFloat);
  CHECK(second.data == first.data);
  pooled.Free(second);
  CHECK(pooled.UsedMemory() > held);
  pooled.Clear();
  CHECK(pooled.UsedMemory() == held);

  const size_t live = driver.live.size();
  const Buffer other = naive.Alloc(kDevice, 100000, 64, kFloat);
  static_cast<Memory*>(other.data)->handle();
  CHECK(driver.live.size() == live + 1);
  naive.Free(other);
  CHECK(driver.live.size() == live);
}

TEST_CASE("a view with a texture scope is a texture, another is the storage itself") {
  OpenCLAllocator allocator(kPooled);
  const Buffer storage = allocator.Alloc(kDevice, 1000000, 64, kFloat);
  CHECK(allocator.CreateView(storage, kPixels, kFloat, "global") == storage.data);
  CHECK(allocator.CreateView(storage, kPixels, kFloat, "") == storage.data);
  auto* view = static_cast<Memory*>(allocator.CreateView(storage, kPixels, kFloat, "global.texture"));
  REQUIRE(view->image() != nullptr);
  CHECK(view->image()->width == 5);
  CHECK(view->image()->height == 3);
  CHECK(view->image()->layers == 2);
  allocator.FreeView(kDevice, view);
  CHECK(allocator.CreateView(storage, kPixels, kFloat, "global.texture") == view);
  allocator.FreeView(kDevice, view);
  allocator.FreeView(kDevice, storage.data);
  allocator.Free(storage);
  allocator.Clear();
}

TEST_CASE("tensors are allocated by shape and scope") {
  OpenCLAllocator allocator(kPooled);
  const Buffer flat = allocator.Alloc(kDevice, kPixels, kFloat, "global");
  CHECK(flat.size == 480);
  CHECK(static_cast<Memory*>(flat.data)->image() == nullptr);
  const Buffer texture = allocator.Alloc(kDevice, kPixels, kFloat, "global.texture-nhwc");
  REQUIRE(static_cast<Memory*>(texture.data)->image() != nullptr);
  CHECK(texture.size == 480);
  CHECK_THROWS_AS(allocator.Alloc(kDevice, kPixels, kFloat, "shared"), tvm::ffi::Error);
  allocator.Free(flat);
  allocator.Free(texture);
  allocator.Clear();
}

TEST_CASE("a device that is not there is refused") {
  OpenCLAllocator allocator(kPooled);
  CHECK_THROWS_AS(allocator.Alloc(DLDevice{kDLOpenCL, 1}, 10, 64, kFloat), tvm::ffi::Error);
  CHECK_THROWS_AS(allocator.Alloc(DLDevice{kDLOpenCL, -1}, 10, 64, kFloat), tvm::ffi::Error);
}
