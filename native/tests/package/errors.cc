#include "errors.h"

#include <doctest/doctest.h>

using namespace tvmake;

TEST_CASE("errors have the subject and the problem, with the remedy on a line below") {
  CHECK_THROWS_WITH_AS(RefuseInput("file", "is damaged"), "file: is damaged", Error);
  CHECK_THROWS_WITH_AS(FailDevice("device", "is full", "free some space"), "device: is full\n  free some space", Error);
  try {
    FailDevice("device", "is full");
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::kDevice);
  }
}

TEST_CASE("the cause of a message is its last line that is not a stack frame") {
  CHECK(Cause("Traceback:\n  File \"x.cc\", line 3\nRuntimeError: out of memory\n  at frame\n\n") ==
        "RuntimeError: out of memory");
  CHECK(Cause("one line") == "one line");
  CHECK(Cause("") == "no message");
  CHECK(Cause("\n \n") == "no message");
}

TEST_CASE("names from damaged files are shown without control characters") {
  CHECK(Printable("a\nb\x1b[31m\xff") == "a?b?[31m?");
}
