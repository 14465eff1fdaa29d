// A package's parameters (mod.params), mapped from the file: memory holds only what is used, and the system can drop it again.
#ifndef TVMAKE_WEIGHTS_FILE_H_
#define TVMAKE_WEIGHTS_FILE_H_

#include <tvm/ffi/container/tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tvmake {

class WeightsFile {
 public:
  // Throws std::invalid_argument, which says why the file cannot be TVM's parameters with all that they hold. TVM's own
  // reader takes what is cut short as if it were whole.
  explicit WeightsFile(const std::string& path);

  // A tensor on the CPU, which may outlive this object; nothing when the file has none of this name. A large one is in the
  // file's memory, and writing to it does not change the file.
  std::optional<tvm::ffi::Tensor> Load(const std::string& name) const;

 private:
  struct Stored {
    DLDataType dtype;
    std::vector<int64_t> shape;
    std::size_t offset, size;
  };

  std::shared_ptr<char> content_;
  std::map<std::string, Stored> tensors_;
};

}  // namespace tvmake

#endif  // TVMAKE_WEIGHTS_FILE_H_
