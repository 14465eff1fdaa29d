// Digests of files, so that nothing is loaded that is not what the manifest says.
#ifndef TVMAKE_FILE_DIGEST_H_
#define TVMAKE_FILE_DIGEST_H_

#include <string>

namespace tvmake {

// sha256 as hex. Throws Error if the file cannot be read.
std::string DigestOfFile(const std::string& path);

// A whole file. Throws Error if it cannot be read.
std::string ReadFile(const std::string& path);

}  // namespace tvmake

#endif  // TVMAKE_FILE_DIGEST_H_
