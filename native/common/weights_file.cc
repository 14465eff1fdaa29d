#include "weights_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace tvmake {
namespace {

// kTVMTensorListMagic and kTVMTensorMagic of TVM's runtime; 8 reserved bytes follow each.
constexpr std::uint64_t kMagic = 0xF7E58D4F05049CB7, kTensorMagic = 0xDD5E40F096B4A13F;

constexpr std::uint64_t kMostNames = 1 << 20, kLongestName = 1 << 16;
constexpr std::int32_t kMostAxes = 64;

// kAllocAlignment of TVM's runtime: kernels read vectors from tensors' first elements.
constexpr std::size_t kAlignment = 64;

// Goes forward in a file's content, so that nothing it says of itself leads beyond its end.
class Walk {
 public:
  Walk(const char* content, std::size_t size) : content_(content), size_(size) {}

  std::size_t Position() const { return position_; }

  template <typename Value>
  Value Read() {
    Value value{};
    std::memcpy(&value, PassOver(sizeof value), sizeof value);
    return value;
  }

  // Returns what was passed over.
  const char* PassOver(std::uint64_t bytes) {
    if (bytes > size_ - position_) throw std::invalid_argument("it is cut short");
    const char* begin = content_ + position_;
    position_ += bytes;
    return begin;
  }

 private:
  const char* content_;
  std::size_t size_, position_ = 0;
};

std::vector<std::string> ReadNames(Walk* walk) {
  const auto magic = walk->Read<std::uint64_t>();
  walk->PassOver(8);
  const auto count = walk->Read<std::uint64_t>();
  if (magic != kMagic || count > kMostNames) throw std::invalid_argument("it does not begin as TVM's parameters do");
  std::vector<std::string> names;
  for (std::uint64_t index = 0; index < count; ++index) {
    const auto length = walk->Read<std::uint64_t>();
    if (length > kLongestName) throw std::invalid_argument("a name is too long");
    const char* name = walk->PassOver(length);
    names.emplace_back(name, length);
  }
  const auto tensors = walk->Read<std::uint64_t>();
  if (tensors != count) {
    throw std::invalid_argument("it has " + std::to_string(count) + " names and " + std::to_string(tensors) + " tensors");
  }
  return names;
}

// The size of a tensor's data, whose elements have whole bytes; more than a file can have if it overflows.
std::uint64_t BytesOf(const std::vector<int64_t>& shape, DLDataType dtype) {
  std::uint64_t bytes = (dtype.bits + 7) / 8;
  for (const int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) return UINT64_MAX;
  }
  return bytes;
}

std::pair<std::shared_ptr<char>, std::size_t> Map(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat about {};
  const bool is_open = file >= 0 && fstat(file, &about) == 0;
  const auto size = static_cast<std::size_t>(about.st_size);
  void* content = MAP_FAILED;
  if (is_open && size > 0) content = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
  const int error = errno;
  if (file >= 0) close(file);
  if (is_open && size == 0) throw std::invalid_argument("it is cut short");
  if (content == MAP_FAILED) throw std::invalid_argument(std::string("it cannot be read (") + std::strerror(error) + ")");
  return {{static_cast<char*>(content), [size](char* begin) { munmap(begin, size); }}, size};
}

std::shared_ptr<char> CopyAligned(const char* data, std::size_t size) {
  auto* copy = static_cast<char*>(std::aligned_alloc(kAlignment, (size / kAlignment + 1) * kAlignment));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, data, size);
  return {copy, std::free};
}

}  // namespace

WeightsFile::WeightsFile(const std::string& path) {
  std::size_t size = 0;
  std::tie(content_, size) = Map(path);
  Walk walk(content_.get(), size);
  for (const std::string& name : ReadNames(&walk)) {
    const auto magic = walk.Read<std::uint64_t>();
    walk.PassOver(8 + 2 * sizeof(std::int32_t));  // reserved, device
    const auto axes = walk.Read<std::int32_t>();
    if (magic != kTensorMagic || axes < 0 || axes > kMostAxes) {
      throw std::invalid_argument("a tensor does not begin as TVM's do");
    }
    Stored tensor{walk.Read<DLDataType>(), {}, 0, 0};
    for (std::int32_t axis = 0; axis < axes; ++axis) tensor.shape.push_back(walk.Read<std::int64_t>());
    const auto bytes = walk.Read<std::int64_t>();
    if (bytes < 0 || static_cast<std::uint64_t>(bytes) != BytesOf(tensor.shape, tensor.dtype)) {
      throw std::invalid_argument("a tensor has another size than its shape");
    }
    tensor.offset = walk.Position();
    tensor.size = static_cast<std::size_t>(bytes);
    walk.PassOver(tensor.size);
    tensors_.emplace(name, std::move(tensor));
  }
}

std::optional<tvm::ffi::Tensor> WeightsFile::Load(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return std::nullopt;
  const Stored& stored = found->second;
  struct Loan {
    DLManagedTensor tensor;
    std::vector<int64_t> shape;
    std::shared_ptr<char> memory;
  };
  const char* data = content_.get() + stored.offset;
  // An aliasing pointer: it keeps the whole file mapped.
  auto memory = stored.offset % kAlignment == 0 ? std::shared_ptr<char>(content_, const_cast<char*>(data))
                                                : CopyAligned(data, stored.size);
  auto* loan = new Loan{{}, stored.shape, std::move(memory)};
  DLTensor& tensor = loan->tensor.dl_tensor;
  tensor.data = loan->memory.get();
  tensor.device = {kDLCPU, 0};
  tensor.ndim = static_cast<int32_t>(loan->shape.size());
  tensor.dtype = stored.dtype;
  tensor.shape = loan->shape.data();
  loan->tensor.manager_ctx = loan;
  loan->tensor.deleter = [](DLManagedTensor* managed) { delete static_cast<Loan*>(managed->manager_ctx); };
  return tvm::ffi::Tensor::FromDLPack(&loan->tensor, kAlignment);
}

}  // namespace tvmake
