// mod.json: what a package is and how to call it, checked before anything of it is loaded.
#ifndef TVMAKE_MANIFEST_H_
#define TVMAKE_MANIFEST_H_

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
  std::vector<std::string> arguments;   // all of main's, by the names that they have there
  bool has_kernels = true;
  SelfTest self_test;
};

// The kind of device that a package was compiled for: "cpu", "opencl" ...
std::string DeviceOf(const Manifest& manifest);

// Check an unpacked package as tvmake.artifact.package.verify_directory does, and read its manifest.
//
// Throws Error if a file is missing, truncated or altered.
Manifest VerifyPackage(const std::string& directory);

}  // namespace tvmake

#endif  // TVMAKE_MANIFEST_H_
