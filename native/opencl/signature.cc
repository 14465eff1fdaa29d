#include "signature.h"

#include <algorithm>

namespace tvmake {
namespace opencl {

std::vector<bool> ImageParameters(const std::string& source, const std::string& name) {
  // TVM writes a kernel's name and its parameters' types as words, without macros or comments among them.
  const size_t at = source.rfind(" " + name + "(");
  const size_t begin = at == std::string::npos ? at : at + name.size() + 2;
  const size_t end = begin == std::string::npos ? begin : source.find(')', begin);
  if (end == std::string::npos) return {};
  std::vector<bool> images;
  for (size_t start = begin; start <= end;) {
    const size_t comma = std::min(source.find(',', start), end);
    images.push_back(source.substr(start, comma - start).find("image2d_array_t") != std::string::npos);
    start = comma + 1;
  }
  return images;
}

}  // namespace opencl
}  // namespace tvmake
