#include "work_directory.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "log.h"

namespace tvmake {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "tvmake-session-";  // then the server's process, then what mkdtemp makes up

fs::path Parent(const std::string& parent) {
  if (!parent.empty()) return fs::absolute(parent);
  const char* temporary = getenv("TMPDIR");
  return temporary && *temporary ? temporary : "/tmp";
}

void Remove(const fs::path& path) {
  std::error_code problem;
  fs::remove_all(path, problem);
  if (problem) Log(path.string() + " cannot be removed (" + problem.message() + ")");
}

}  // namespace

WorkDirectory::WorkDirectory(const std::string& parent) {
  std::string name = Parent(parent) / (kPrefix + std::to_string(getpid()) + "-XXXXXX");
  if (!mkdtemp(name.data())) throw std::runtime_error(name + ": cannot be created (" + strerror(errno) + ")");
  path_ = name;
}

WorkDirectory::~WorkDirectory() { Remove(path_); }

void RemoveAbandoned(const std::string& parent) {
  std::error_code problem;
  const fs::path directory = Parent(parent);
  fs::directory_iterator entries(directory, problem);
  if (problem) throw std::runtime_error(directory.string() + ": cannot be used (" + problem.message() + ")");
  for (const fs::directory_entry& entry : entries) {
    const std::string name = entry.path().filename();
    if (name.rfind(kPrefix, 0) != 0) continue;
    const pid_t owner = static_cast<pid_t>(strtol(name.c_str() + strlen(kPrefix), nullptr, 10));
    if (owner > 0 && kill(owner, 0) != 0 && errno == ESRCH) Remove(entry.path());
  }
}

}  // namespace tvmake
