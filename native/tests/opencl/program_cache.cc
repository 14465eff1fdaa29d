#include "program_cache.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "temporary_directory.h"

using namespace tvmake::opencl;
using tvmake::testing::ContentOf;
using tvmake::testing::TemporaryDirectory;
using tvmake::testing::WriteFile;

namespace {

// A cache of its own for a test.
class Cache {
 public:
  Cache() { setenv("TVMAKE_HOME", directory_.path().c_str(), 1); }
  ~Cache() { unsetenv("TVMAKE_HOME"); }
  std::string File(const std::string& key) const { return directory_ / "opencl/" + key; }

 private:
  TemporaryDirectory directory_;
};

}  // namespace

TEST_CASE("a program is found under the key it was stored with") {
  const Cache cache;
  CHECK_FALSE(LoadProgram("key").has_value());
  StoreProgram("key", std::string("bi\0nary", 7));
  CHECK(LoadProgram("key") == std::string("bi\0nary", 7));
  CHECK_FALSE(LoadProgram("other").has_value());
}

TEST_CASE("a damaged entry counts as none") {
  const Cache cache;
  StoreProgram("key", "binary");
  const std::string whole = ContentOf(cache.File("key"));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    WriteFile(cache.File("key"), whole.substr(0, size));
    CAPTURE(size);
    CHECK_FALSE(LoadProgram("key").has_value());
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    WriteFile(cache.File("key"), changed);
    CAPTURE(at);
    CHECK_FALSE(LoadProgram("key").has_value());
  }
}

TEST_CASE("a cache that is off or cannot be written is not an error") {
  const Cache cache;
  setenv("TVMAKE_OPENCL_CACHE", "0", 1);
  StoreProgram("key", "binary");
  CHECK_FALSE(std::filesystem::exists(cache.File("key")));
  unsetenv("TVMAKE_OPENCL_CACHE");
  WriteFile(cache.File("").substr(0, cache.File("").size() - 1), "a file instead of the directory");
  CHECK_NOTHROW(StoreProgram("key", "binary"));
  CHECK_FALSE(LoadProgram("key").has_value());
}

TEST_CASE("whatever can change a program changes its key") {
  DeviceFacts facts;
  facts.name = "a";
  facts.vendor = "bc";
  const std::string key = ProgramKey(facts, "source", "options");
  CHECK(key.size() == 64);
  CHECK(key == ProgramKey(facts, "source", "options"));
  CHECK(key != ProgramKey(facts, "source2", "options"));
  CHECK(key != ProgramKey(facts, "sourceoptions", ""));
  DeviceFacts driver = facts;
  driver.driver = "2";
  CHECK(key != ProgramKey(driver, "source", "options"));
  DeviceFacts shifted = facts;
  shifted.name = "ab";
  shifted.vendor = "c";
  CHECK(key != ProgramKey(shifted, "source", "options"));
}
