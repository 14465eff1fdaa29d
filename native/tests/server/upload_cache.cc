#include "upload_cache.h"

#include <doctest/doctest.h>
#include <tvm/ffi/error.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "sha256.h"
#include "temporary_directory.h"

using namespace tvmake;
using namespace tvmake::testing;
namespace fs = std::filesystem;

namespace {

// A cache of 100 bytes, and a directory for sessions' files.
struct Fixture {
  TemporaryDirectory kept, session;
  UploadCache cache{kept.path(), 100};

  // Keep a file with this content; returns its digest.
  std::string Keep(const std::string& content) {
    WriteFile(session / "sent", content);
    const FileFacts facts = FactsOf(session / "sent");
    CHECK(facts.sha256 == DigestOf(content));
    CHECK(facts.size == content.size());
    cache.Keep(session / "sent", facts);
    fs::remove(session / "sent");
    return facts.sha256;
  }
  bool Has(const std::string& digest) const { return fs::exists(kept / digest); }
  void SetAge(const std::string& name, std::chrono::minutes age) {
    fs::last_write_time(kept / name, fs::file_time_type::clock::now() - age);
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a file is taken by its digest") {
  const std::string digest = Keep("content");
  REQUIRE(cache.Take(digest, session / "a/b"));
  CHECK(ContentOf(session / "a/b") == "content");
  CHECK_FALSE(cache.Take(DigestOf("other"), session / "c"));
  CHECK_FALSE(fs::exists(session / "c"));
}

TEST_CASE_FIXTURE(Fixture, "a file that was changed meanwhile is not handed out") {
  const std::string digest = Keep("content");
  WriteFile(kept / digest, "cöntent");
  CHECK_FALSE(cache.Take(digest, session / "a"));
  CHECK_FALSE(fs::exists(session / "a"));
  CHECK_FALSE(Has(digest));
}

TEST_CASE_FIXTURE(Fixture, "names other than digests reach no file") {
  WriteFile(kept / "file", "x");
  for (const std::string& name :
       {std::string("file"), std::string("../file"), std::string(), std::string("/etc/passwd"), std::string(63, 'a'),
        std::string(64, 'A'), std::string(64, '/')}) {
    CAPTURE(name);
    CHECK_FALSE(cache.Take(name, session / "a"));
  }
}

TEST_CASE_FIXTURE(Fixture, "the least recently used files make room") {
  const std::string first = Keep(std::string(40, 'a')), second = Keep(std::string(40, 'b'));
  SetAge(first, std::chrono::minutes(2));
  SetAge(second, std::chrono::minutes(3));
  SUBCASE("by when they were kept") {
    const std::string third = Keep(std::string(30, 'c'));
    CHECK(Has(first));
    CHECK_FALSE(Has(second));
    CHECK(Has(third));
  }
  SUBCASE("by when they were taken") {
    REQUIRE(cache.Take(second, session / "a"));
    const std::string third = Keep(std::string(30, 'c'));
    CHECK_FALSE(Has(first));
    CHECK(Has(second));
    CHECK(Has(third));
  }
}

TEST_CASE_FIXTURE(Fixture, "a file that exactly fits is kept, a larger one is not and displaces nothing") {
  const std::string small = Keep("a");
  CHECK_FALSE(Has(Keep(std::string(101, 'x'))));
  CHECK(Has(small));
  CHECK(Has(Keep(std::string(100, 'x'))));
  CHECK_FALSE(Has(small));
}

TEST_CASE_FIXTURE(Fixture, "unfinished files count while they are young, and go when they are abandoned") {
  WriteFile(kept / "unfinished-1", std::string(80, 'x'));
  CHECK_FALSE(Has(Keep(std::string(30, 'a'))));
  CHECK(Has("unfinished-1"));
  SetAge("unfinished-1", std::chrono::minutes(61));
  CHECK(Has(Keep(std::string(30, 'a'))));
  CHECK_FALSE(Has("unfinished-1"));
}

TEST_CASE_FIXTURE(Fixture, "files of others in the directory stay") {
  WriteFile(kept / "notes.txt", std::string(200, 'x'));
  CHECK(Has(Keep(std::string(100, 'a'))));
  CHECK(Has("notes.txt"));
}

TEST_CASE("without a directory nothing is kept") {
  const TemporaryDirectory session;
  const UploadCache cache("", 100);
  WriteFile(session / "sent", "x");
  cache.Keep(session / "sent", FactsOf(session / "sent"));
  CHECK_FALSE(cache.Take(DigestOf("x"), session / "a"));
}

TEST_CASE("a directory that cannot be used is refused, a file that cannot be read as well") {
  const TemporaryDirectory directory;
  WriteFile(directory / "file", "");
  CHECK_THROWS_AS(UploadCache(directory / "file", 100), std::runtime_error);
  CHECK_THROWS_AS(FactsOf(directory / "absent"), tvm::ffi::Error);
}
