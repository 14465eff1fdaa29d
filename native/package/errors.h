// Errors as tvmake prints them: where and what, and below what to do about it.
#ifndef TVMAKE_ERRORS_H_
#define TVMAKE_ERRORS_H_

#include <string>

#include "tvmake/package.h"

namespace tvmake {

inline constexpr char kMakeAgain[] = "rebuild the package with `tvmake make`, or copy it again from its source";

inline std::string Message(const std::string& where, const std::string& problem, const std::string& remedy) {
  return where + ": " + problem + (remedy.empty() ? "" : "\n  " + remedy);
}

[[noreturn]] inline void RefuseInput(const std::string& where, const std::string& problem,
                                     const std::string& remedy = "") {
  throw Error(Fault::kInput, Message(where, problem, remedy));
}

[[noreturn]] inline void FailDevice(const std::string& where, const std::string& problem,
                                    const std::string& remedy = "") {
  throw Error(Fault::kDevice, Message(where, problem, remedy));
}

// A name from a file that may be damaged, fit to be shown.
inline std::string Printable(std::string name) {
  for (char& c : name) {
    if (c < ' ' || c > '~') c = '?';
  }
  return name;
}

// The line of TVM's message that names the cause: the last one that is neither empty nor a stack frame.
inline std::string Cause(const std::string& message) {
  std::string found;
  std::size_t begin = 0;
  while (begin <= message.size()) {
    std::size_t end = message.find('\n', begin);
    if (end == std::string::npos) end = message.size();
    const std::size_t first = message.find_first_not_of(" \t\r", begin);
    if (first < end && message.compare(first, 5, "File ") != 0 && message.compare(first, 3, "at ") != 0) {
      found = message.substr(first, end - first);
    }
    begin = end + 1;
  }
  return found.empty() ? "no message" : found;
}

}  // namespace tvmake

#endif  // TVMAKE_ERRORS_H_
