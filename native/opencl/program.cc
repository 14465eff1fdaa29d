#include "program.h"

#include <tvm/ffi/error.h>

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "program_cache.h"

namespace tvmake {
namespace opencl {
namespace {

class Program {
 public:
  explicit Program(cl_program program) : program_(program) {}
  ~Program() {
    if (program_ != nullptr) GetApi().clReleaseProgram(program_);  // its kernels keep it alive
  }
  Program(Program&& other) noexcept : program_(other.program_) { other.program_ = nullptr; }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  cl_program get() const { return program_; }

 private:
  cl_program program_;
};

std::string BuildLog(cl_program program, cl_device_id device) {
  const Api& api = GetApi();
  size_t size = 0;
  if (api.clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size) != CL_SUCCESS) return "";
  std::string log(size, '\0');
  if (api.clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr) != CL_SUCCESS) {
    return "";
  }
  while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
  return log;
}

// The line of a build log that names the error.
std::string TellingLine(const std::string& log) {
  const size_t found = log.find("error: ");
  const size_t begin = found == std::string::npos ? log.find_first_not_of('\n') : log.rfind('\n', found) + 1;
  return begin == std::string::npos ? "" : log.substr(begin, log.find('\n', begin) - begin);
}

// Messages are one line, which is what reaches a user over RPC; the compiler's other words go to this process's log.
[[noreturn]] void FailBuild(cl_int code, Device* device, const std::string& name, const std::string& log) {
  if (log.find('\n') != std::string::npos) std::fprintf(stderr, "%s\n", log.c_str());
  const std::string telling = TellingLine(log);
  TVM_FFI_THROW(RuntimeError) << "OpenCL: kernel '" << name << "' does not compile for '" << device->facts().name
                              << "': " << ErrorName(code) << (telling.empty() ? "" : ": ") << telling;
  TVM_FFI_UNREACHABLE();
}

// TVM's source asks for the extension, and for nothing where it is missing but an #error in the driver's own words.
void RefuseHalf(Device* device, const std::string& name, const std::string& source) {
  if (device->facts().has_half || source.find("cl_khr_fp16") == std::string::npos) return;
  TVM_FFI_THROW(RuntimeError) << "OpenCL: kernel '" << name << "' computes in float16, and '" << device->facts().name
                              << "' does not (no cl_khr_fp16)";
}

Program Compile(Device* device, const std::string& name, const std::string& source, const std::string& options) {
  RefuseHalf(device, name, source);
  const char* text = source.data();
  size_t length = source.size();
  cl_int code = CL_SUCCESS;
  Program program(GetApi().clCreateProgramWithSource(device->context(), 1, &text, &length, &code));
  if (code != CL_SUCCESS) Fail(code, "cannot take the source of kernel '" + name + "'");
  cl_device_id id = device->id();
  code = GetApi().clBuildProgram(program.get(), 1, &id, options.c_str(), nullptr, nullptr);
  if (code != CL_SUCCESS) FailBuild(code, device, name, BuildLog(program.get(), id));
  return program;
}

// A driver may refuse code that it made itself (after an update that kept its version); then there is none.
std::optional<Program> FromBinary(Device* device, const std::string& binary, const std::string& options) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(binary.data());
  size_t length = binary.size();
  cl_device_id id = device->id();
  cl_int status = CL_SUCCESS;
  cl_int code = CL_SUCCESS;
  Program program(GetApi().clCreateProgramWithBinary(device->context(), 1, &id, &length, &bytes, &status, &code));
  if (code != CL_SUCCESS || status != CL_SUCCESS) return std::nullopt;
  if (GetApi().clBuildProgram(program.get(), 1, &id, options.c_str(), nullptr, nullptr) != CL_SUCCESS) {
    return std::nullopt;
  }
  return program;
}

// Empty when the driver does not give its code away.
std::string BinaryOf(cl_program program) {
  size_t size = 0;
  cl_int code = GetApi().clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(size), &size, nullptr);
  if (code != CL_SUCCESS || size == 0) return "";
  std::string binary(size, '\0');
  char* data = binary.data();
  code = GetApi().clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof(data), &data, nullptr);
  return code == CL_SUCCESS ? binary : "";
}

// What the driver's compiler is told. Kernels that ask for an optional feature of OpenCL C 3.0 (they say `#ifdef __opencl_c_…`) are
// told of it in that language alone; others keep the driver's default, OpenCL C 1.2.
std::string Options(const DeviceFacts& facts, const std::string& source) {
  const char* set = std::getenv("TVMAKE_OPENCL_OPTIONS");
  std::string options = set == nullptr ? "" : set;
  const bool has_features = facts.version.rfind("OpenCL 3.", 0) == 0;
  if (has_features && source.find("__opencl_c_") != std::string::npos && options.find("-cl-std=") == std::string::npos) {
    options += options.empty() ? "-cl-std=CL3.0" : " -cl-std=CL3.0";
  }
  return options;
}

cl_kernel KernelOf(const Program& program, const std::string& name, cl_int* code) {
  return GetApi().clCreateKernel(program.get(), name.c_str(), code);
}

}  // namespace

BuiltKernel BuildKernel(Device* device, const std::string& name, const std::string& source) {
  const std::string options = Options(device->facts(), source);
  const std::string key = ProgramKey(device->facts(), source, options);
  cl_int code = CL_SUCCESS;
  if (std::optional<std::string> binary = LoadProgram(key)) {
    if (std::optional<Program> program = FromBinary(device, *binary, options)) {
      cl_kernel kernel = KernelOf(*program, name, &code);
      if (code == CL_SUCCESS) return {kernel, ""};
    }
  }
  Program program = Compile(device, name, source, options);
  cl_kernel kernel = KernelOf(program, name, &code);
  if (code != CL_SUCCESS) Fail(code, "cannot make kernel '" + name + "'");
  return {kernel, key};
}

void StoreKernel(const BuiltKernel& built) {
  cl_program program = nullptr;
  cl_int code = GetApi().clGetKernelInfo(built.kernel, CL_KERNEL_PROGRAM, sizeof(program), &program, nullptr);
  if (code != CL_SUCCESS) return;
  const std::string binary = BinaryOf(program);
  if (!binary.empty()) StoreProgram(built.unstored_key, binary);
}

}  // namespace opencl
}  // namespace tvmake
