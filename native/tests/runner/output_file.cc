#include "output_file.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "temporary_directory.h"
#include "tvmake/package.h"

using namespace tvmake;
using namespace tvmake::testing;

TEST_CASE("a file appears whole when it is finished") {
  const TemporaryDirectory directory;
  const std::string path = directory / "file";
  WriteFile(path, "before");
  {
    OutputFile file(path);
    file.Write("aft", 3);
    file.Write("er", 2);
    file.Write(nullptr, 0);
    CHECK(ContentOf(path) == "before");
    file.Finish();
  }
  CHECK(ContentOf(path) == "after");
  CHECK(std::distance(std::filesystem::directory_iterator(directory.path()), {}) == 1);
}

TEST_CASE("a file that is not finished changes nothing") {
  const TemporaryDirectory directory;
  { OutputFile(directory / "file").Write("x", 1); }
  CHECK(std::filesystem::is_empty(directory.path()));
}

TEST_CASE("a path that cannot be written is named, and nothing is left there") {
  const TemporaryDirectory directory;
  CHECK_THROWS_WITH_AS(OutputFile(directory / "absent/file"),
                       (directory / "absent/file" + ": cannot be written (No such file or directory)").c_str(), Error);
  std::filesystem::create_directories(directory / "taken/inside");
  OutputFile file(directory / "taken");
  CHECK_THROWS_AS(file.Finish(), Error);
  CHECK(std::distance(std::filesystem::directory_iterator(directory.path()), {}) == 1);
}
