#include "command_line.h"

#include <cerrno>
#include <cstdlib>

namespace tvmake {

bool CommandLine::Next() {
  if (at_ + 1 >= argc_) return false;
  flag_ = argv_[++at_];
  return true;
}

std::string CommandLine::Value() {
  if (at_ + 1 >= argc_) throw UsageError(flag_ + ": a value is missing");
  return argv_[++at_];
}

int64_t CommandLine::WholeNumber(int64_t least, int64_t most) {
  return tvmake::WholeNumber(flag_, Value(), least, most);
}

int64_t WholeNumber(const std::string& flag, const std::string& text, int64_t least, int64_t most) {
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end || errno || value < least || value > most) {
    const std::string bounds = most == std::numeric_limits<int64_t>::max()
                                   ? "of " + std::to_string(least) + " or more"
                                   : "from " + std::to_string(least) + " to " + std::to_string(most);
    throw UsageError(flag + ": expected a whole number " + bounds + " (got '" + text + "')");
  }
  return value;
}

}  // namespace tvmake
