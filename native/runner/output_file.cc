#include "output_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "errors.h"

namespace tvmake {

OutputFile::OutputFile(const std::string& path)
    : path_(path), temporary_(path + "." + std::to_string(getpid()) + ".part"), file_(nullptr) {
  file_ = std::fopen(temporary_.c_str(), "wb");
  if (!file_) Fail();
}

OutputFile::~OutputFile() {
  if (!file_) return;
  std::fclose(file_);
  std::remove(temporary_.c_str());
}

void OutputFile::Write(const void* data, std::size_t size) {
  if (size && std::fwrite(data, 1, size, file_) != size) Fail();
}

void OutputFile::Finish() {
  if (std::fflush(file_) != 0) Fail();
  const int closed = std::fclose(file_);
  file_ = nullptr;
  if (closed != 0 || std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int code = errno;
    std::remove(temporary_.c_str());
    errno = code;
    Fail();
  }
}

void OutputFile::Fail() const { FailDevice(path_, std::string("cannot be written (") + std::strerror(errno) + ")"); }

}  // namespace tvmake
