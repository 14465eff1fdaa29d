// The states of a package as bytes, to continue from later: those of tvmake's Python interface, too.
//
// "TVMAKE-STATE-1\n", a line of canonical JSON (the package's own_sha256, each state's name, dtype and shape, the sha256 of
// the data), and the data: the tensors one after the other, row by row, little-endian.
#ifndef TVMAKE_SNAPSHOT_H_
#define TVMAKE_SNAPSHOT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "manifest.h"

namespace tvmake {

// states: their values, in signature order; none before the first run.
std::vector<uint8_t> WriteSnapshot(const Manifest& manifest, const std::vector<Tensor>& states);

// The values in a snapshot. Throws Error if it is truncated, altered, or another package's.
std::vector<Tensor> ReadSnapshot(const Manifest& manifest, const void* data, std::size_t bytes);

}  // namespace tvmake

#endif  // TVMAKE_SNAPSHOT_H_
