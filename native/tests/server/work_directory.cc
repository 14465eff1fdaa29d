#include "work_directory.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "temporary_directory.h"

using namespace tvmake;
using namespace tvmake::testing;
namespace fs = std::filesystem;

TEST_CASE("a session's directory goes with all it holds") {
  const TemporaryDirectory parent;
  {
    const WorkDirectory first(parent.path()), second(parent.path());
    CHECK(first.path() != second.path());
    fs::create_directories(first.path() + "/a/b");
    WriteFile(first.path() + "/a/b/file", "x");
  }
  CHECK(fs::is_empty(parent.path()));
  CHECK_THROWS_AS(WorkDirectory(parent / "absent"), std::runtime_error);
}

TEST_CASE("what a killed server left is removed, and nothing else") {
  const TemporaryDirectory parent;
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  const std::string left = "tvmake-session-" + std::to_string(child) + "-abcdef";
  const std::string used = "tvmake-session-" + std::to_string(getpid()) + "-abcdef";
  for (const std::string& name : {left, used, std::string("tvmake-session-"), std::string("other")}) {
    fs::create_directory(parent / name);
  }
  RemoveAbandoned(parent.path());
  CHECK_FALSE(fs::exists(parent / left));
  CHECK(fs::exists(parent / used));
  CHECK(fs::exists(parent / "tvmake-session-"));
  CHECK(fs::exists(parent / "other"));
  CHECK_THROWS_AS(RemoveAbandoned(parent / "absent"), std::runtime_error);
}
