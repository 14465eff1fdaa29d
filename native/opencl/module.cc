#include "module.h"

#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/support/serializer.h>

#include <utility>

#include "byte_streams.h"

namespace tvmake {
namespace opencl {

namespace ffi = tvm::ffi;
using tvm::runtime::FunctionInfo;

std::map<std::string, std::string> SplitKernels(const std::string& code) {
  const std::string marker = "// Function: ";
  std::map<std::string, std::string> sources;
  size_t at = code.find(marker);
  const std::string preamble = code.substr(0, at);
  while (at != std::string::npos) {
    const size_t name_at = at + marker.size();
    const size_t line_end = code.find('\n', name_at);
    if (line_end == std::string::npos) break;
    at = code.find(marker, line_end);
    sources[code.substr(name_at, line_end - name_at)] =
        preamble + code.substr(line_end + 1, at == std::string::npos ? at : at - line_end - 1);
  }
  return sources;
}

OpenCLModule::OpenCLModule(std::string code, std::string format, FunctionInfos infos)
    : code_(std::move(code)), format_(std::move(format)), infos_(std::move(infos)), sources_(SplitKernels(code_)) {
  if (format_ != "cl") {
    TVM_FFI_THROW(ValueError) << "OpenCL: a module of format '" << format_ << "', which is not OpenCL C source ('cl')";
  }
}

int OpenCLModule::GetPropertyMask() const { return ffi::Module::kBinarySerializable | ffi::Module::kRunnable; }

ffi::Optional<ffi::Function> OpenCLModule::GetFunction(const ffi::String& name) {
  const auto info = infos_.find(name);
  if (info == infos_.end()) return std::nullopt;
  std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<Kernel>& kernel = kernels_[name];
  if (kernel == nullptr) {
    const auto source = sources_.find(name);
    kernel = std::make_shared<Kernel>(name, source == sources_.end() ? code_ : source->second, (*info).second);
  }
  return ffi::Function::FromPacked([kernel](ffi::PackedArgs args, ffi::Any*) { kernel->Launch(args); });
}

ffi::String OpenCLModule::InspectSource(const ffi::String& format) const {
  return format.empty() || format == format_ ? ffi::String(code_) : ffi::String();
}

// TVM's own format for modules of device code: what the code is, the kernels, the code.
ffi::Bytes OpenCLModule::SaveToBytes() const {
  BytesWriter writer;
  writer.Write(format_);
  writer.Write(static_cast<uint64_t>(infos_.size()));
  for (const auto& [name, info] : infos_) {
    writer.Write(ffi::String(name));
    writer.Write(FunctionInfo(info));
  }
  writer.Write(code_);
  return ffi::Bytes(writer.Take());
}

ffi::Module OpenCLModule::LoadFromBytes(const ffi::Bytes& bytes) {
  BytesReader reader(bytes.data(), bytes.size());
  std::string format;
  std::string code;
  uint64_t count = 0;
  FunctionInfos infos;
  bool is_whole = reader.Read(&format) && reader.Read(&count);
  for (uint64_t i = 0; is_whole && i < count; ++i) {
    ffi::String name;
    FunctionInfo info{ffi::UnsafeInit()};
    is_whole = reader.Read(&name) && reader.Read(&info);
    if (is_whole) infos.Set(name, info);
  }
  if (!is_whole || !reader.Read(&code)) {
    TVM_FFI_THROW(ValueError) << "OpenCL: this module is damaged: its data ends too early";
  }
  return ffi::Module(ffi::make_object<OpenCLModule>(std::move(code), std::move(format), std::move(infos)));
}

TVM_FFI_STATIC_INIT_BLOCK() {
  ffi::reflection::GlobalDef()
      .def("ffi.Module.load_from_bytes.opencl", OpenCLModule::LoadFromBytes)
      .def("ffi.Module.create.opencl",
           // The last argument holds each kernel's source once more, for people.
           [](const ffi::Bytes& code, const ffi::String& format, FunctionInfos infos, const ffi::Any&) {
             return ffi::Module(ffi::make_object<OpenCLModule>(std::string(code.data(), code.size()),
                                                               std::string(format), std::move(infos)));
           });
}

}  // namespace opencl
}  // namespace tvmake
