#include "extents.h"

#include <cctype>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "errors.h"

namespace tvmake {
namespace {

std::string Described(const Bounds& bounds) {
  const std::string least = std::to_string(bounds.least);
  if (!bounds.most) return least + " or more";
  return *bounds.most == bounds.least ? least : least + " to " + std::to_string(*bounds.most);
}

std::string Described(const Sizes& sizes) {
  std::string text;
  for (const auto& [name, size] : sizes) text += (text.empty() ? "" : ", ") + name + ": " + std::to_string(size);
  return "{" + text + "}";
}

// Throws Error if the sizes are none of the package's shapes.
void CheckShapes(const Manifest& manifest, const std::map<std::string, std::pair<int64_t, std::string>>& known) {
  if (manifest.shapes.empty()) return;
  Sizes given;
  std::string taken;
  for (const Sizes& shape : manifest.shapes) {
    bool fits = true;
    for (const auto& [name, size] : shape) {
      const auto found = known.find(name);
      if (found == known.end()) continue;
      given[name] = found->second.first;
      fits = fits && found->second.first == size;
    }
    if (fits) return;
    taken += (taken.empty() ? "" : ", ") + Described(shape);
  }
  RefuseInput("inputs", Described(given) + " is none of this package's shapes: " + taken, "give inputs of such sizes");
}

// A sum of products, with the operators of tvmake.artifact.extents.evaluate_extent.
class Expression {
 public:
  Expression(const std::string& text, const std::function<int64_t(const std::string&)>& size_of)
      : text_(text), size_of_(size_of) {}

  int64_t Value() {
    const int64_t value = Sum(0);
    if (at_ != text_.size()) Fail();
    return value;
  }

 private:
  static constexpr int kDeepest = 100;  // parentheses

  [[noreturn]] void Fail() const { throw std::invalid_argument(text_); }

  bool Take(const std::string& sign) {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    if (text_.compare(at_, sign.size(), sign) != 0) return false;
    at_ += sign.size();
    return true;
  }

  int64_t Sum(int depth) {
    int64_t value = Product(depth);
    for (;;) {
      if (Take("+")) value += Product(depth);
      else if (Take("-")) value -= Product(depth);
      else return value;
    }
  }

  int64_t Product(int depth) {
    int64_t value = Term(depth);
    for (;;) {
      if (Take("*")) {
        value *= Term(depth);
      } else if (Take("//")) {
        const int64_t divisor = Term(depth);
        if (divisor == 0) Fail();
        value = value / divisor - (value % divisor != 0 && (value < 0) != (divisor < 0));
      } else {
        return value;
      }
    }
  }

  int64_t Term(int depth) {
    if (depth > kDeepest) Fail();
    if (Take("(")) {
      const int64_t value = Sum(depth + 1);
      if (!Take(")")) Fail();
      return value;
    }
    const std::size_t begin = at_;
    const auto is_letter = [](unsigned char c) { return std::isalnum(c) || c == '_' || c > '~'; };
    while (at_ < text_.size() && is_letter(text_[at_])) ++at_;
    const std::string word = text_.substr(begin, at_ - begin);
    if (word.empty() || word.size() > 1000) Fail();
    if (!std::isdigit(static_cast<unsigned char>(word[0]))) return size_of_(word);
    if (word.size() > 18 || word.find_first_not_of("0123456789") != std::string::npos) Fail();
    return std::stoll(word);
  }

  const std::string& text_;
  const std::function<int64_t(const std::string&)>& size_of_;
  std::size_t at_ = 0;
};

}  // namespace

bool IsArithmetic(const std::string& extent) { return extent.find_first_of("+-*/()") != std::string::npos; }

int64_t EvaluateExtent(const std::string& expression, const std::function<int64_t(const std::string&)>& size_of) {
  return Expression(expression, size_of).Value();
}

void CheckBounds(const Manifest& manifest, const TensorSpec& input, const std::vector<int64_t>& shape,
                 const std::string& remedy) {
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const auto found = manifest.bounds.find(input.names[axis]);
    if (input.shape[axis] != kDynamic || found == manifest.bounds.end()) continue;
    const Bounds& bounds = found->second;
    if (shape[axis] < bounds.least || (bounds.most && shape[axis] > *bounds.most)) {
      RefuseInput("inputs", found->first + " is " + std::to_string(shape[axis]) + " in '" + input.name +
                                "'; this package takes " + Described(bounds),
                  remedy);
    }
  }
}

void CheckExtents(const Manifest& manifest, const std::vector<std::vector<int64_t>>& shapes) {
  std::map<std::string, std::pair<int64_t, std::string>> known;  // sizes, and the inputs that have them
  for (std::size_t index = 0; index < shapes.size(); ++index) {
    const std::size_t count = manifest.inputs.size();
    const TensorSpec& input = index < count ? manifest.inputs[index] : manifest.states[index - count];
    const std::vector<int64_t>& shape = shapes[index];
    CheckBounds(manifest, input, shape, index < count ? "" : "reset the states");
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (input.shape[axis] != kDynamic) continue;
      const auto& [size, elsewhere] = known.emplace(input.names[axis], std::pair(shape[axis], input.name)).first->second;
      if (size != shape[axis]) {
        RefuseInput("inputs",
                    input.names[axis] + " is " + std::to_string(shape[axis]) + " in '" + input.name + "' and " +
                        std::to_string(size) + " in '" + elsewhere + "'",
                    index < count ? "give it one size" : "give it the size of the states, or reset them");
      }
    }
  }
  CheckShapes(manifest, known);
}

}  // namespace tvmake
