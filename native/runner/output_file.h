// A file that is there whole or not at all.
#ifndef TVMAKE_RUNNER_OUTPUT_FILE_H_
#define TVMAKE_RUNNER_OUTPUT_FILE_H_

#include <cstddef>
#include <cstdio>
#include <string>

namespace tvmake {

class OutputFile {
 public:
  // Throws Error if the file cannot be written, here and below.
  explicit OutputFile(const std::string& path);
  // Without Finish, nothing is left.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;

  void Write(const void* data, std::size_t size);
  void Finish();

 private:
  [[noreturn]] void Fail() const;

  std::string path_, temporary_;
  std::FILE* file_;
};

}  // namespace tvmake

#endif  // TVMAKE_RUNNER_OUTPUT_FILE_H_
