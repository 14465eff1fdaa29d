#include "canonical_json.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

namespace tvmake {
namespace {

constexpr int kDeepest = 200;  // levels; a document with more is an attack on the stack

class Reader {
 public:
  Reader(const std::string& text, std::string left_out) : text_(text), left_out_("\"" + std::move(left_out) + "\"") {}

  std::string Document() {
    std::string value = Value(0);
    Spaces();
    if (at_ != text_.size()) Fail();
    return value;
  }

 private:
  [[noreturn]] static void Fail() { throw std::invalid_argument("no JSON"); }

  void Spaces() {
    while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_])) ++at_;
  }

  bool Take(char expected) {
    Spaces();
    if (at_ >= text_.size() || text_[at_] != expected) return false;
    ++at_;
    return true;
  }

  std::string String() {
    Spaces();
    const std::size_t begin = at_;
    if (!Take('"')) Fail();
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    if (at_ >= text_.size()) Fail();
    return text_.substr(begin, ++at_ - begin);
  }

  std::string Value(int depth) {
    if (depth > kDeepest) Fail();
    if (Take('{')) return Object(depth);
    if (Take('[')) return Array(depth);
    if (at_ < text_.size() && text_[at_] == '"') return String();
    const std::size_t begin = at_;
    while (at_ < text_.size() && !std::strchr(" \t\r\n,]}:\"", text_[at_])) ++at_;
    if (at_ == begin) Fail();
    return text_.substr(begin, at_ - begin);
  }

  std::string Object(int depth) {
    std::vector<std::pair<std::string, std::string>> members;
    if (!Take('}')) {
      do {
        std::string name = String();
        if (!Take(':')) Fail();
        std::string value = Value(depth + 1);
        if (depth > 0 || name != left_out_) members.emplace_back(std::move(name), std::move(value));
      } while (Take(','));
      if (!Take('}')) Fail();
    }
    // Without the quotes: "ab" comes after "a".
    std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) {
      return a.first.substr(1, a.first.size() - 2) < b.first.substr(1, b.first.size() - 2);
    });
    std::string text = "{";
    for (const auto& [name, value] : members) text += (text.size() > 1 ? "," : "") + name + ":" + value;
    return text + "}";
  }

  std::string Array(int depth) {
    std::string text = "[";
    if (Take(']')) return "[]";
    do {
      text += (text.size() > 1 ? "," : "") + Value(depth + 1);
    } while (Take(','));
    if (!Take(']')) Fail();
    return text + "]";
  }

  const std::string& text_;
  const std::string left_out_;
  std::size_t at_ = 0;
};

}  // namespace

std::string CanonicalJsonWithout(const std::string& text, const std::string& key) {
  return Reader(text, key).Document();
}

std::string JsonText(const std::string& text) {
  static constexpr char kEscaped[] = "\"\\\n\r\t\b\f", kLetters[] = "\"\\nrtbf";
  std::string json = "\"";
  for (const char c : text) {
    const char* const found = c ? std::strchr(kEscaped, c) : nullptr;
    if (found) {
      json += {'\\', kLetters[found - kEscaped]};
    } else if (static_cast<unsigned char>(c) < ' ') {
      json += {'\\', 'u', '0', '0', c < 16 ? '0' : '1', "0123456789abcdef"[c % 16]};
    } else {
      json += c;
    }
  }
  return json + "\"";
}

}  // namespace tvmake
