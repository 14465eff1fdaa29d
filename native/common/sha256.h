// SHA-256 (FIPS 180-4), for all parts.
#ifndef TVMAKE_SHA256_H_
#define TVMAKE_SHA256_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace tvmake {

class Sha256 {
 public:
  void Add(const void* data, std::size_t size);
  // In full, as hex. Nothing may be added afterwards.
  std::string Hex();

 private:
  void Block(const uint8_t* block);

  // Section 5.3.3.
  uint32_t state_[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint8_t pending_[64] = {};
  std::size_t pending_size_ = 0;
  uint64_t size_ = 0;
};

std::string DigestOf(const std::string& bytes);

}  // namespace tvmake

#endif  // TVMAKE_SHA256_H_
