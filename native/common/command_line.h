// Command lines of flags, some with a value after them.
#ifndef TVMAKE_COMMAND_LINE_H_
#define TVMAKE_COMMAND_LINE_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace tvmake {

// A command line that makes no sense, in one line.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The flags that a program knows, each with where its value goes. Every program has --help and --version.
class CommandLine {
 public:
  void Switch(const std::string& flag, bool* is_given);
  void Text(const std::string& flag, std::string* value);
  void Number(const std::string& flag, int64_t* value, int64_t least);
  void Number(const std::string& flag, int* value, int least, int most);
  void Each(const std::string& flag, std::vector<std::string>* values);  // may be repeated

  // What stands after the flag is given to `take`, which throws UsageError if it makes no sense.
  void Value(const std::string& flag, std::function<void(const std::string&)> take);

  // The flags that were given, in order; nothing after --help or --version is looked at. Throws UsageError.
  std::vector<std::string> Parse(int argc, char** argv) const;

 private:
  std::map<std::string, bool*> switches_;
  std::map<std::string, std::function<void(const std::string&)>> values_;
};

// What asks for words about the program, instead of work.
bool IsAboutProgram(const std::string& flag);

// A whole number within bounds. Throws UsageError that names the flag.
int64_t WholeNumber(const std::string& flag, const std::string& text, int64_t least,
                    int64_t most = std::numeric_limits<int64_t>::max());

}  // namespace tvmake

#endif  // TVMAKE_COMMAND_LINE_H_
