#include "weights_file.h"

#include <cstdint>
#include <fstream>
#include <stdexcept>

namespace tvmake {
namespace {

// kTVMTensorListMagic and kTVMTensorMagic of TVM's runtime; 8 reserved bytes follow each.
constexpr std::uint64_t kMagic = 0xF7E58D4F05049CB7, kTensorMagic = 0xDD5E40F096B4A13F;

constexpr std::uint64_t kMostNames = 1 << 20, kLongestName = 1 << 16;
constexpr std::int32_t kMostAxes = 64;

// Goes forward in a file whose size is known, so that nothing it says of itself leads beyond its end.
class Walk {
 public:
  explicit Walk(const std::string& path) : file_(path, std::ios::binary) {
    file_.seekg(0, std::ios::end);
    left_ = file_ ? static_cast<std::uint64_t>(file_.tellg()) : 0;
    file_.seekg(0);
  }

  template <typename Value>
  Value Read() {
    Value value{};
    Take(sizeof value);
    file_.read(reinterpret_cast<char*>(&value), sizeof value);
    if (!file_) throw std::invalid_argument("it cannot be read");
    return value;
  }

  void PassOver(std::uint64_t bytes) {
    Take(bytes);
    file_.seekg(static_cast<std::streamoff>(bytes), std::ios::cur);
  }

 private:
  void Take(std::uint64_t bytes) {
    if (bytes > left_) throw std::invalid_argument("it is cut short");
    left_ -= bytes;
  }

  std::ifstream file_;
  std::uint64_t left_ = 0;
};

void PassOverTensor(Walk* file) {
  const auto magic = file->Read<std::uint64_t>();
  file->PassOver(8 + 2 * sizeof(std::int32_t));  // reserved, device
  const auto axes = file->Read<std::int32_t>();
  if (magic != kTensorMagic || axes < 0 || axes > kMostAxes) {
    throw std::invalid_argument("a tensor does not begin as TVM's do");
  }
  file->PassOver(4 + 8 * static_cast<std::uint64_t>(axes));  // type, shape
  const auto size = file->Read<std::int64_t>();
  if (size < 0) throw std::invalid_argument("a tensor has no size");
  file->PassOver(static_cast<std::uint64_t>(size));
}

void PassOverAll(Walk* file) {
  const auto magic = file->Read<std::uint64_t>();
  file->PassOver(8);
  const auto names = file->Read<std::uint64_t>();
  if (magic != kMagic || names > kMostNames) throw std::invalid_argument("it does not begin as TVM's parameters do");
  for (std::uint64_t index = 0; index < names; ++index) {
    const auto length = file->Read<std::uint64_t>();
    if (length > kLongestName) throw std::invalid_argument("a name is too long");
    file->PassOver(length);
  }
  const auto tensors = file->Read<std::uint64_t>();
  if (tensors != names) {
    throw std::invalid_argument("it has " + std::to_string(names) + " names and " + std::to_string(tensors) +
                                " tensors");
  }
  for (std::uint64_t index = 0; index < tensors; ++index) PassOverTensor(file);
}

}  // namespace

std::string DamageOfWeights(const std::string& path) {
  try {
    Walk file(path);
    PassOverAll(&file);
    return "";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

}  // namespace tvmake
