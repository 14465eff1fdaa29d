#include "session_functions.h"

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "options.h"

namespace tvmake {
namespace {

namespace fs = std::filesystem;
using tvm::ffi::Bytes;
using tvm::ffi::Function;
using tvm::ffi::Module;
using tvm::ffi::String;

std::string Spelled(const String& name) { return std::string(name.data(), name.size()); }

// A file that may be anywhere.
fs::path AnyPath(const fs::path& directory, const String& name) { return directory / Spelled(name); }

// A file of the session.
fs::path SessionPath(const fs::path& directory, const String& name) {
  const fs::path path = AnyPath(directory, name).lexically_normal();
  const fs::path inside = path.lexically_relative(directory);
  if (inside.empty() || inside == "." || *inside.begin() == "..") {
    TVM_FFI_THROW(ValueError) << "'" << Spelled(name) << "' is outside the session's directory";
  }
  return path;
}

// The library that a name means.
fs::path Library(const fs::path& directory, const String& name) {
  const fs::path path = SessionPath(directory, name);
  if (path.extension() != ".so") {
    TVM_FFI_THROW(ValueError) << "this server loads .so files and links nothing; '" << Spelled(name) << "' is none";
  }
  return path;
}

Bytes Content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) TVM_FFI_THROW(ValueError) << path.string() << " cannot be read";
  return Bytes(std::string(std::istreambuf_iterator<char>(file), {}));
}

void Write(const fs::path& path, const char* data, std::size_t size, bool is_new) {
  if (is_new) {
    fs::create_directories(path.parent_path());
    // A loaded library must not be overwritten; a new file leaves it unchanged.
    fs::remove(path);
  }
  std::ofstream file(path, std::ios::binary | std::ios::app);
  file.write(data, static_cast<std::streamsize>(size));
  file.close();
  if (!file) TVM_FFI_THROW(RuntimeError) << path.string() << " cannot be written";
}

String Names(const fs::path& path) {
  std::string names;
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    names += (names.empty() ? "" : ",") + entry.path().filename().string();
  }
  return names;
}

String FactsText(const FileFacts& file) { return String(std::to_string(file.size) + " " + file.sha256); }

}  // namespace

void RegisterSessionFunctions(const std::string& directory, const UploadCache& cache) {
  const fs::path workspace = directory;
  const auto set = [](const char* name, auto function) {
    Function::SetGlobal(std::string("tvm.rpc.server.") + name, Function::FromTyped(function), /*override=*/true);
  };
  set("workpath", [workspace](String name) { return String(AnyPath(workspace, name).string()); });
  set("upload", [workspace](String name, Bytes data) { Write(SessionPath(workspace, name), data.data(), data.size(), true); });
  set("download", [workspace](String name) { return Content(AnyPath(workspace, name)); });
  set("remove", [workspace](String name) { fs::remove_all(SessionPath(workspace, name)); });
  set("listdir", [workspace](String name) { return Names(AnyPath(workspace, name)); });
  set("load_module", [workspace](String name) { return Module::LoadFromFile(Library(workspace, name).string()); });
  set("download_linked_module", [workspace](String name) { return Content(Library(workspace, name)); });

  const auto extend = [](const char* name, auto function) {
    Function::SetGlobal(std::string("tvmake.rpc.") + name, Function::FromTyped(function), /*override=*/true);
  };
  extend("version", [] { return String(kTvmVersion); });
  extend("store", [workspace](String name, DLTensor* tensor, int64_t offset) {
    if (tensor->device.device_type != kDLCPU) TVM_FFI_THROW(ValueError) << "tvmake.rpc.store takes a tensor of the CPU";
    const char* bytes = static_cast<const char*>(tensor->data) + tensor->byte_offset;
    Write(SessionPath(workspace, name), bytes, tvm::ffi::GetDataSize(*tensor), offset == 0);
  });
  extend("digest", [workspace](String name) { return FactsText(FactsOf(SessionPath(workspace, name))); });
  extend("take",
         [workspace, cache](String name, String sha256) { return cache.Take(Spelled(sha256), SessionPath(workspace, name)); });
  extend("keep", [workspace, cache](String name, String sha256) {
    const fs::path path = SessionPath(workspace, name);
    const FileFacts found = FactsOf(path);
    if (found.sha256 == Spelled(sha256)) cache.Keep(path, found);
    return FactsText(found);
  });
}

}  // namespace tvmake
