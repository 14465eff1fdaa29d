// mod.json: what a package is and how to call it, checked before anything of it is loaded.
#ifndef TVMAKE_MANIFEST_H_
#define TVMAKE_MANIFEST_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tvmake/package.h"

namespace tvmake {

constexpr char kLibrary[] = "mod.so";
constexpr char kManifest[] = "mod.json";
constexpr char kWeights[] = "mod.params";

constexpr char kSelfTest[] = "self_test.npz";
constexpr char kTokenizer[] = "tokenizer.json";

// What a package tests itself by, as tvmake.artifact.manifest.SelfTest says.
struct SelfTest {
  int64_t samples = 0;
  std::string reference;                // the framework that gave the expected outputs
  std::map<std::string, double> goals;  // what each sample's outputs have to reach
  std::string why_not;                  // why there are no samples; empty if none were requested
};

// The sizes that a dynamic dimension takes.
struct Bounds {
  int64_t least = 0;
  std::optional<int64_t> most;  // empty without a maximum
};

// Sizes of dynamic dimensions, by name.
using Sizes = std::map<std::string, int64_t>;

struct Manifest {
  std::string own_sha256;  // its own digest
  std::string model, precision, target_name;
  std::string target_kind;  // "llvm", "opencl" ...
  std::vector<TensorSpec> inputs, outputs;
  // main takes states behind the inputs, and gives their next values behind the outputs.
  std::vector<TensorSpec> states, next_states;
  std::map<std::string, Bounds> bounds;  // of dynamic dimensions, by name; others take any size
  std::vector<Sizes> shapes;              // the only sizes that the package takes; empty if there are others
  std::vector<std::string> parameters;  // trailing arguments of main, in order
  std::vector<std::string> weights;     // their names in mod.params
  std::vector<std::string> arguments;   // all of main's, by the names that they have there
  bool has_kernels = true;
  SelfTest self_test;
  std::string function;             // its name and directory, if the package has several
  std::vector<std::size_t> state_indices;  // of its states in those of the package
};

// A state of a package. Functions share it that have one of its name, type and shape; dynamic extents are equal.
struct PackageState {
  TensorSpec spec;                     // as the first function has it
  std::vector<std::string> functions;  // that have it; empty in a package with one network
};

// A package: one network, or several functions over one set of weights.
struct PackageManifest {
  std::string own_sha256;  // its own digest
  std::vector<Manifest> networks;
  std::vector<std::string> functions;  // their names, in order; empty in a package with one network
  std::vector<PackageState> states;
};

// The kind of device that a package was compiled for: "cpu", "opencl" ...
std::string DeviceOf(const Manifest& manifest);

// Check an unpacked package as tvmake.artifact.package.verify_directory does, and read its manifest.
//
// Throws Error if a file is missing, truncated or altered.
PackageManifest VerifyPackage(const std::string& directory);

// A package of these networks, in which those of equal states share them.
PackageManifest PackageOf(const std::string& own_sha256, std::vector<Manifest> networks);

// The index of a function's network; with an empty name, of the only one.
//
// Throws Error if there is none, or several without a name. `choose`: how to name one, for the message.
std::size_t NetworkOf(const PackageManifest& package, const std::string& where, const std::string& function,
                      const std::string& choose);

// The directory with a network's code.
std::string CodeDirectory(const std::string& package, const Manifest& manifest);

}  // namespace tvmake

#endif  // TVMAKE_MANIFEST_H_
