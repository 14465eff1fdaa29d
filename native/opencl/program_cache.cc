#include "program_cache.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "sha256.h"

namespace tvmake {
namespace opencl {
namespace {

namespace fs = std::filesystem;

// First line of a file; change it when the format does.
const std::string kMagic = "tvmake opencl program 1\n";
constexpr size_t kDigestLength = 64;

std::string Setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Empty if caching is off, or if the system has no directory for caches (Android, unless TVMAKE_HOME is set).
fs::path Directory() {
  if (Setting("TVMAKE_OPENCL_CACHE") == "0") return {};
  if (!Setting("TVMAKE_HOME").empty()) return fs::path(Setting("TVMAKE_HOME")) / "opencl";
  if (!Setting("XDG_CACHE_HOME").empty()) return fs::path(Setting("XDG_CACHE_HOME")) / "tvmake" / "opencl";
  if (!Setting("HOME").empty()) return fs::path(Setting("HOME")) / ".cache" / "tvmake" / "opencl";
  return {};
}

// Renames a complete file to its name; false if it could not be written.
bool WriteAtomically(const fs::path& file, const std::string& content) {
  static std::atomic<int> count{0};
  fs::path temporary = file;
  temporary += "." + std::to_string(getpid()) + "." + std::to_string(count++);
  std::error_code error;
  {
    std::ofstream stream(temporary, std::ios::binary);
    stream.write(content.data(), static_cast<std::streamsize>(content.size()));
    stream.close();
    if (stream.fail()) {
      fs::remove(temporary, error);
      return false;
    }
  }
  fs::rename(temporary, file, error);
  if (!error) return true;
  fs::remove(temporary, error);
  return false;
}

}  // namespace

std::string ProgramKey(const DeviceFacts& facts, const std::string& source, const std::string& options) {
  std::string all;
  for (const std::string& part : {kMagic, facts.platform, facts.platform_version, facts.name, facts.vendor,
                                  facts.version, facts.driver, options, source}) {
    all += std::to_string(part.size()) + ":" + part;
  }
  return DigestOf(all);
}

std::optional<std::string> LoadProgram(const std::string& key) {
  fs::path directory = Directory();
  if (directory.empty()) return std::nullopt;
  std::ifstream stream(directory / key, std::ios::binary);
  if (!stream) return std::nullopt;
  std::string content{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  size_t header = kMagic.size() + kDigestLength;
  if (content.size() < header || content.compare(0, kMagic.size(), kMagic) != 0) return std::nullopt;
  std::string binary = content.substr(header);
  if (DigestOf(binary) != content.substr(kMagic.size(), kDigestLength)) return std::nullopt;
  return binary;
}

void StoreProgram(const std::string& key, const std::string& binary) {
  fs::path directory = Directory();
  if (directory.empty()) return;
  std::error_code error;
  fs::create_directories(directory, error);
  if (!error) WriteAtomically(directory / key, kMagic + DigestOf(binary) + binary);
}

}  // namespace opencl
}  // namespace tvmake
