// Command lines for programs.
#ifndef TVMAKE_TESTS_ARGUMENTS_H_
#define TVMAKE_TESTS_ARGUMENTS_H_

#include <string>
#include <utility>
#include <vector>

namespace tvmake::testing {

// argc and argv, as main gets them.
class Arguments {
 public:
  explicit Arguments(std::vector<std::string> words) : words_(std::move(words)) {
    words_.insert(words_.begin(), "program");
    for (std::string& word : words_) pointers_.push_back(word.data());
    pointers_.push_back(nullptr);
  }

  int count() const { return static_cast<int>(words_.size()); }
  char** values() { return pointers_.data(); }

 private:
  std::vector<std::string> words_;
  std::vector<char*> pointers_;
};

}  // namespace tvmake::testing

#endif  // TVMAKE_TESTS_ARGUMENTS_H_
