#include "upload_cache.h"

#include <tvm/ffi/error.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "log.h"
#include "sha256.h"

namespace tvmake {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPart = 1 << 20;  // bytes read at once
constexpr char kUnfinished[] = "unfinished-";
constexpr auto kAbandoned = std::chrono::hours(1);  // a file that is still unfinished is nobody's

bool IsDigest(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// Link a file to another path, or copy it if the file system has no links; an existing file is replaced.
bool LinkOrCopy(const fs::path& from, const fs::path& to) {
  std::error_code problem;
  fs::create_directories(to.parent_path(), problem);
  fs::remove(to, problem);
  fs::create_hard_link(from, to, problem);
  if (!problem) return true;
  problem.clear();
  return fs::copy_file(from, to, fs::copy_options::overwrite_existing, problem) && !problem;
}

struct Entry {
  fs::file_time_type used;
  uint64_t size;
  fs::path path;
};

// The cache's own files in its directory, the least recently used first.
std::vector<Entry> Entries(const fs::path& directory) {
  std::vector<Entry> kept;
  std::error_code problem;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, problem)) {
    const std::string name = entry.path().filename().string();
    if (!IsDigest(name) && name.rfind(kUnfinished, 0) != 0) continue;
    // Another server may remove it meanwhile.
    std::error_code gone;
    const Entry file{entry.last_write_time(gone), gone ? 0 : entry.file_size(gone), entry.path()};
    if (!gone) kept.push_back(file);
  }
  std::sort(kept.begin(), kept.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  return kept;
}

}  // namespace

FileFacts FactsOf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  Sha256 sha256;
  FileFacts facts;
  std::vector<char> part(kPart);
  while (file.read(part.data(), static_cast<std::streamsize>(part.size())) || file.gcount() > 0) {
    const auto size = static_cast<std::size_t>(file.gcount());
    sha256.Add(part.data(), size);
    facts.size += size;
  }
  if (!file.eof()) TVM_FFI_THROW(ValueError) << path.string() << " cannot be read";
  facts.sha256 = sha256.Hex();
  return facts;
}

UploadCache::UploadCache(const std::string& directory, uint64_t most_bytes) : most_bytes_(most_bytes) {
  if (directory.empty()) return;
  directory_ = fs::absolute(directory);
  std::error_code problem;
  fs::create_directories(directory_, problem);
  if (problem || access(directory_.c_str(), W_OK | X_OK) != 0) {
    throw std::runtime_error(directory + ": cannot be used to keep files");
  }
}

bool UploadCache::Take(const std::string& sha256, const fs::path& path) const {
  const fs::path kept = directory_ / sha256;
  std::error_code problem;
  if (directory_.empty() || !IsDigest(sha256) || !fs::is_regular_file(kept, problem)) return false;
  if (!LinkOrCopy(kept, path)) return false;
  if (FactsOf(path).sha256 != sha256) {
    Log(kept.string() + " is damaged; it will be sent again");
    fs::remove(kept, problem);
    fs::remove(path, problem);
    return false;
  }
  fs::last_write_time(kept, fs::file_time_type::clock::now(), problem);
  return true;
}

void UploadCache::Keep(const fs::path& path, const FileFacts& facts) const {
  std::error_code problem;
  const fs::path kept = directory_ / facts.sha256;
  if (directory_.empty() || fs::exists(kept, problem) || !HasRoomFor(facts.size)) return;
  const fs::path unfinished = directory_ / (kUnfinished + std::to_string(getpid()));
  if (LinkOrCopy(path, unfinished)) fs::rename(unfinished, kept, problem);
  fs::remove(unfinished, problem);
}

bool UploadCache::HasRoomFor(uint64_t size) const {
  if (size > most_bytes_) return false;
  const auto now = fs::file_time_type::clock::now();
  std::error_code problem;
  uint64_t all = size;
  std::vector<Entry> entries = Entries(directory_);
  for (const Entry& file : entries) all += file.size;
  for (const Entry& file : entries) {
    const bool is_unfinished = !IsDigest(file.path.filename().string());
    if (is_unfinished ? now - file.used < kAbandoned : all <= most_bytes_) continue;
    if (fs::remove(file.path, problem)) all -= file.size;
  }
  return all <= most_bytes_;
}

}  // namespace tvmake
