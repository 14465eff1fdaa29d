// The states of a package as bytes, to continue from later: those of tvmake's Python interface, too.
//
// "TVMAKE-STATE-1\n", a line of canonical JSON (the package's own_sha256, each state's name, dtype and shape, the sha256 of
// the data), and the data: the tensors one after the other, row by row, little-endian. If the package has several functions,
// a state also names those that have it, and states that have not begun are left out.
#ifndef TVMAKE_SNAPSHOT_H_
#define TVMAKE_SNAPSHOT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "manifest.h"

namespace tvmake {

// The values of a package's states, in their order; none of those that have not begun.
using StateValues = std::vector<std::optional<Tensor>>;

std::vector<uint8_t> WriteSnapshot(const PackageManifest& package, const StateValues& states);

// The values in a snapshot. Throws Error if it is truncated, altered, or another package's.
StateValues ReadSnapshot(const PackageManifest& package, const void* data, std::size_t bytes);

}  // namespace tvmake

#endif  // TVMAKE_SNAPSHOT_H_
