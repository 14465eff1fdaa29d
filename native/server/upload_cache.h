// Files that clients sent, kept between sessions.
#ifndef TVMAKE_SERVER_UPLOAD_CACHE_H_
#define TVMAKE_SERVER_UPLOAD_CACHE_H_

#include <cstdint>
#include <filesystem>
#include <string>

namespace tvmake {

struct FileFacts {
  uint64_t size = 0;   // bytes
  std::string sha256;  // as hex
};

// What a file holds now. Throws ffi::Error if it cannot be read.
FileFacts FactsOf(const std::filesystem::path& path);

// A directory of files named by their digests, of bounded size: the least recently used go first. Several servers may
// share it. A file is compared with its digest each time it is taken: what sessions run could have changed it.
class UploadCache {
 public:
  // directory: made if it is not there; empty for none, which keeps nothing.
  // most_bytes: what is kept in all.
  // Throws std::runtime_error if it cannot be made.
  UploadCache(const std::string& directory, uint64_t most_bytes);

  // Have the file with this digest at a path; false if it is not here, or no longer intact.
  bool Take(const std::string& sha256, const std::filesystem::path& path) const;

  // Store a copy of a file. A failure is not an error.
  void Keep(const std::filesystem::path& path, const FileFacts& facts) const;

 private:
  bool HasRoomFor(uint64_t size) const;

  std::filesystem::path directory_;
  uint64_t most_bytes_;
};

}  // namespace tvmake

#endif  // TVMAKE_SERVER_UPLOAD_CACHE_H_
