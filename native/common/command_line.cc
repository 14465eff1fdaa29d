#include "command_line.h"

#include <cerrno>
#include <cstdlib>
#include <utility>

namespace tvmake {

void CommandLine::Switch(const std::string& flag, bool* is_given) { switches_[flag] = is_given; }

void CommandLine::Text(const std::string& flag, std::string* value) {
  Value(flag, [value](const std::string& text) { *value = text; });
}

void CommandLine::Number(const std::string& flag, int64_t* value, int64_t least) {
  Value(flag, [=](const std::string& text) { *value = WholeNumber(flag, text, least); });
}

void CommandLine::Number(const std::string& flag, int* value, int least, int most) {
  Value(flag, [=](const std::string& text) { *value = static_cast<int>(WholeNumber(flag, text, least, most)); });
}

void CommandLine::Each(const std::string& flag, std::vector<std::string>* values) {
  Value(flag, [values](const std::string& text) { values->push_back(text); });
}

void CommandLine::Value(const std::string& flag, std::function<void(const std::string&)> take) {
  values_[flag] = std::move(take);
}

bool IsAboutProgram(const std::string& flag) { return flag == "--help" || flag == "-h" || flag == "--version"; }

std::vector<std::string> CommandLine::Parse(int argc, char** argv) const {
  std::vector<std::string> given;
  for (int at = 1; at < argc; ++at) {
    const std::string flag = given.emplace_back(argv[at]);
    if (IsAboutProgram(flag)) return given;
    if (const auto found = switches_.find(flag); found != switches_.end()) {
      *found->second = true;
    } else if (const auto found = values_.find(flag); found == values_.end()) {
      throw UsageError(flag + ": no such option; --help lists them");
    } else if (++at < argc) {
      found->second(argv[at]);
    } else {
      throw UsageError(flag + ": a value is missing");
    }
  }
  return given;
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
