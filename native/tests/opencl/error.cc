#include "error.h"

#include <doctest/doctest.h>
#include <tvm/ffi/error.h>

using namespace tvmake::opencl;

TEST_CASE("codes have the names that OpenCL gives them") {
  CHECK(ErrorName(-54) == "CL_INVALID_WORK_GROUP_SIZE (-54)");
  CHECK(ErrorName(-12345) == "error -12345");
  CHECK(IsOutOfMemory(-4));
  CHECK(IsOutOfMemory(-5));
  CHECK_FALSE(IsOutOfMemory(-54));
  CHECK_FALSE(IsOutOfMemory(0));
  CHECK_NOTHROW(Check(0, "a call"));
  try {
    Check(-30, "cannot do it");
    FAIL("no error");
  } catch (const tvm::ffi::Error& error) {
    CHECK(std::string(error.message()) == "OpenCL: cannot do it: CL_INVALID_VALUE (-30)");
  }
}

TEST_CASE("sizes in messages") {
  CHECK(Bytes(0) == "0 B");
  CHECK(Bytes(1023) == "1023 B");
  CHECK(Bytes(1024) == "1.0 KiB");
  CHECK(Bytes(3 * 1024 * 1024 / 2) == "1.5 MiB");
}
