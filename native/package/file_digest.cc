#include "file_digest.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "errors.h"
#include "sha256.h"

namespace tvmake {
namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

File Open(const std::string& path) {
  File file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) RefuseInput(path, std::string("cannot be read (") + std::strerror(errno) + ")");
  return file;
}

template <typename Take>
void ForEachPart(const std::string& path, Take take) {
  const File file = Open(path);
  std::vector<char> part(1 << 20);
  while (const std::size_t size = std::fread(part.data(), 1, part.size(), file.get())) take(part.data(), size);
  if (std::ferror(file.get())) RefuseInput(path, std::string("cannot be read (") + std::strerror(errno) + ")");
}

}  // namespace

std::string DigestOfFile(const std::string& path) {
  Sha256 sha256;
  ForEachPart(path, [&](const char* data, std::size_t size) { sha256.Add(data, size); });
  return sha256.Hex();
}

std::string ReadFile(const std::string& path) {
  std::string content;
  ForEachPart(path, [&](const char* data, std::size_t size) { content.append(data, size); });
  return content;
}

}  // namespace tvmake
