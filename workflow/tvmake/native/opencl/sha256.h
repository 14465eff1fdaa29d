// SHA-256 (FIPS 180-4).
#pragma once

#include <string>

namespace tvmake {

/// The digest of `data`, as 64 hexadecimal digits.
std::string Sha256(const std::string& data);

}  // namespace tvmake
