// Archives of arrays as tvmake.artifact.tensor_file writes them: .npz files whose members are stored uncompressed.
#ifndef TVMAKE_RUNNER_NPZ_H_
#define TVMAKE_RUNNER_NPZ_H_

#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "output_file.h"
#include "tvmake/package.h"

namespace tvmake {

// The member for one tensor of one sample: KIND/NAME/00000.npy, the name percent-encoded.
std::string MemberName(const std::string& kind, const std::string& name, int64_t number);

class NpzReader {
 public:
  // Throws Error if it is not such an archive, here and below.
  explicit NpzReader(const std::string& path);

  bool Has(const std::string& member) const { return members_.count(member) != 0; }

  // Read an array. dtype: what raw bytes are; see ReadNpy.
  Tensor Read(const std::string& member, const std::string& dtype);

 private:
  struct Member {
    uint64_t begin, size;  // begin: of its own header
    uint32_t crc32;
  };
  std::string Bytes(uint64_t begin, uint64_t size);
  void Add(const std::string& directory, std::size_t at);

  std::string path_;
  std::ifstream file_;
  uint64_t size_ = 0;
  std::map<std::string, Member> members_;
};

// Equal arrays give equal bytes, the same as tensor_file's.
class NpzWriter {
 public:
  // Throws Error if the file cannot be written, here and below.
  explicit NpzWriter(const std::string& path) : path_(path), file_(path) {}

  void Add(const std::string& member, const Tensor& tensor);
  // Without it, the file does not exist.
  void Finish();

 private:
  void Write(const std::string& bytes);

  std::string path_;
  OutputFile file_;
  uint64_t written_ = 0;
  std::vector<std::string> directory_;
};

}  // namespace tvmake

#endif  // TVMAKE_RUNNER_NPZ_H_
