// What is read from the source of kernels.
#include <doctest/doctest.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <tvm/support/serializer.h>

#include <string>
#include <vector>

#include "byte_streams.h"
#include "module.h"
#include "signature.h"

using namespace tvmake;
using namespace tvmake::opencl;
namespace ffi = tvm::ffi;

TEST_CASE("the parameters of a kernel that are images") {
  const std::string source =
      "__kernel void add_kernel(__global float* restrict a);\n"
      "__kernel void add(__read_only image2d_array_t a, __global float* restrict b, __write_only image2d_array_t c) "
      "{}\n"
      "__kernel void none() {}\n";
  CHECK(ImageParameters(source, "add") == std::vector<bool>{true, false, true});
  CHECK(ImageParameters(source, "add_kernel") == std::vector<bool>{false});
  CHECK(ImageParameters(source, "none") == std::vector<bool>{false});
  CHECK(ImageParameters(source, "absent").empty());
  CHECK(ImageParameters(" open(int a", "open").empty());
  CHECK(ImageParameters("", "add").empty());
}

TEST_CASE("each kernel's source begins with what stands before all kernels") {
  const auto sources = SplitKernels("#define A 1\n// Function: f\nvoid f() {}\n// Function: g\nvoid g() {}\n");
  REQUIRE(sources.size() == 2);
  CHECK(sources.at("f") == "#define A 1\nvoid f() {}\n");
  CHECK(sources.at("g") == "#define A 1\nvoid g() {}\n");
  CHECK(SplitKernels("void f() {}").empty());
  CHECK(SplitKernels("// Function: cut").empty());
}

namespace {

std::string ModuleBytes(const std::string& format = "cl") {
  BytesWriter writer;
  writer.Write(format);
  writer.Write(uint64_t{1});
  writer.Write(std::string("f"));
  writer.Write(std::string("f"));
  writer.Write(std::vector<DLDataType>{{kDLOpaqueHandle, 64, 1}});
  writer.Write(std::vector<std::string>{"blockIdx.x"});
  writer.Write(std::vector<int32_t>{0});
  writer.Write(std::string("// Function: f\nvoid f() {}\n"));
  return writer.Take();
}

ffi::Module Load(const std::string& bytes) {
  return ffi::Function::GetGlobalRequired("ffi.Module.load_from_bytes.opencl")(ffi::Bytes(bytes)).cast<ffi::Module>();
}

}  // namespace

TEST_CASE("a module is saved unchanged, and every truncated module is refused") {
  const std::string whole = ModuleBytes();
  const ffi::Module module = Load(whole);
  CHECK(std::string(module->SaveToBytes()) == whole);
  CHECK(std::string(module->InspectSource("")) == "// Function: f\nvoid f() {}\n");
  CHECK(const_cast<ffi::ModuleObj*>(module.operator->())->GetFunction("f").has_value());
  CHECK_FALSE(const_cast<ffi::ModuleObj*>(module.operator->())->GetFunction("g").has_value());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(Load(whole.substr(0, size)), ffi::Error);
  }
  CHECK_THROWS_AS(Load(ModuleBytes("spirv")), ffi::Error);
}
