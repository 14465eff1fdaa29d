// Command lines of flags, some with a value after them.
#ifndef TVMAKE_COMMAND_LINE_H_
#define TVMAKE_COMMAND_LINE_H_

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

namespace tvmake {

// A command line that makes no sense, in one line.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class CommandLine {
 public:
  CommandLine(int argc, char** argv) : argc_(argc), argv_(argv) {}

  // Go on to the next flag; false when there is none.
  bool Next();
  const std::string& flag() const { return flag_; }

  // The value after the flag. Throws UsageError if there is none, or another kind of value; also below.
  std::string Value();
  int64_t WholeNumber(int64_t least, int64_t most = std::numeric_limits<int64_t>::max());

 private:
  const int argc_;
  char** const argv_;
  int at_ = 0;
  std::string flag_;
};

// A whole number within bounds. Throws UsageError that names the flag.
int64_t WholeNumber(const std::string& flag, const std::string& text, int64_t least,
                    int64_t most = std::numeric_limits<int64_t>::max());

}  // namespace tvmake

#endif  // TVMAKE_COMMAND_LINE_H_
