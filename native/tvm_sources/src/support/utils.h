// Small helpers for text, by the names that the sources of TVM 0.27's runtime know them by.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>

namespace tvm {
namespace support {

inline bool StartsWith(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

inline bool IsNumber(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace support
}  // namespace tvm
