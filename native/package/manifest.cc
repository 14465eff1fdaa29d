#include "manifest.h"

#include <sys/stat.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/json.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "canonical_json.h"
#include "errors.h"
#include "file_digest.h"
#include "sha256.h"

namespace tvmake {
namespace {

namespace json = tvm::ffi::json;
using tvm::ffi::Any;
using tvm::ffi::String;

constexpr int64_t kOldestSchemaVersion = 2, kFunctionsSchemaVersion = 5, kLinksSchemaVersion = 6;
constexpr std::size_t kMostFunctions = 16, kLongestFunctionName = 64;

constexpr char kRebuildRuntime[] = "rebuild the runtime with the tvmake that wrote the package: `tvmake runtime build`";

Any At(const json::Object& object, const char* key) {
  const auto found = object.find(String(key));
  if (found == object.end()) TVM_FFI_THROW(KeyError) << key << " is missing";
  return (*found).second;
}

std::string Text(const json::Object& object, const char* key) { return At(object, key).cast<String>(); }

TensorSpec SpecOf(const json::Object& row) {
  TensorSpec spec;
  spec.name = Text(row, "name");
  spec.dtype = Text(row, "dtype");
  for (const Any& extent : At(row, "shape").cast<json::Array>()) {
    const auto fixed = extent.as<int64_t>();
    if (fixed && *fixed < 0) TVM_FFI_THROW(ValueError) << "'" << spec.name << "' has a negative extent";
    spec.shape.push_back(fixed ? *fixed : kDynamic);
    spec.names.push_back(fixed ? std::string() : std::string(extent.cast<String>()));
  }
  if (const auto range = row.find(String("range")); range != row.end() && (*range).second != nullptr) {
    const auto bounds = (*range).second.cast<json::Array>();
    spec.has_range = true;
    spec.low = bounds[0].cast<double>();
    spec.high = bounds[1].cast<double>();
  }
  return spec;
}

std::vector<TensorSpec> SpecsOf(const Any& rows) {
  std::vector<TensorSpec> specs;
  for (const Any& row : rows.cast<json::Array>()) specs.push_back(SpecOf(row.cast<json::Object>()));
  return specs;
}

std::map<std::string, Bounds> BoundsOf(const json::Object& signature) {
  std::map<std::string, Bounds> bounds;
  const auto rows = signature.find(String("bounds"));
  if (rows == signature.end()) return bounds;
  for (const auto& [name, row] : (*rows).second.cast<json::Object>()) {
    const auto ends = row.cast<json::Array>();
    Bounds& of_dimension = bounds[name.cast<String>()];
    of_dimension.least = ends[0].cast<int64_t>();
    if (ends[1] != nullptr) of_dimension.most = ends[1].cast<int64_t>();
  }
  return bounds;
}

std::vector<Sizes> ShapesOf(const json::Object& signature) {
  std::vector<Sizes> shapes;
  const auto rows = signature.find(String("shapes"));
  if (rows == signature.end()) return shapes;
  for (const Any& row : (*rows).second.cast<json::Array>()) {
    Sizes& sizes = shapes.emplace_back();
    for (const auto& [name, size] : row.cast<json::Object>()) sizes[name.cast<String>()] = size.cast<int64_t>();
  }
  return shapes;
}

void ReadStates(const json::Object& signature, Manifest* manifest) {
  const auto rows = signature.find(String("states"));
  if (rows == signature.end()) return;
  for (const Any& row : (*rows).second.cast<json::Array>()) {
    const auto state = row.cast<json::Object>();
    manifest->states.push_back(SpecOf(state));
    manifest->next_states.push_back(SpecOf(At(state, "next").cast<json::Object>()));
    manifest->arguments.push_back(Text(state, "relax_name"));
  }
}

SelfTest SelfTestOf(const json::Object& row) {
  SelfTest test;
  test.samples = At(row, "samples").cast<int64_t>();
  test.reference = Text(row, "reference");
  test.why_not = Text(row, "why_not");
  for (const auto& [goal, bound] : At(row, "goals").cast<json::Object>()) {
    test.goals[goal.cast<String>()] = bound.cast<double>();
  }
  return test;
}

Manifest Read(const json::Object& document) {
  Manifest manifest;
  manifest.own_sha256 = Text(document, "own_sha256");
  manifest.model = Text(document, "model");
  manifest.precision = Text(document, "precision");
  manifest.target_name = Text(document, "target_name");
  const auto target = At(document, "target").cast<json::Object>();
  manifest.target_kind = target.count(String("kind")) ? Text(target, "kind") : "llvm";
  const auto signature = At(document, "signature").cast<json::Object>();
  manifest.inputs = SpecsOf(At(signature, "inputs"));
  for (const Any& row : At(signature, "inputs").cast<json::Array>()) {
    manifest.arguments.push_back(Text(row.cast<json::Object>(), "relax_name"));
  }
  manifest.outputs = SpecsOf(At(signature, "outputs"));
  ReadStates(signature, &manifest);
  manifest.bounds = BoundsOf(signature);
  manifest.shapes = ShapesOf(signature);
  for (const Any& parameter : At(document, "parameters").cast<json::Array>()) {
    manifest.parameters.push_back(Text(parameter.cast<json::Object>(), "name"));
  }
  manifest.weights = manifest.parameters;
  manifest.arguments.insert(manifest.arguments.end(), manifest.parameters.begin(), manifest.parameters.end());
  manifest.has_kernels = At(document, "kernels").cast<json::Array>().size() > 0;
  if (const auto test = document.find(String("self_test")); test != document.end() && (*test).second != nullptr) {
    manifest.self_test = SelfTestOf((*test).second.cast<json::Object>());
  }
  return manifest;
}

void CheckFile(const std::string& directory, const std::string& name, const json::Object& entry) {
  const std::string path = directory + "/" + name;
  struct stat facts;
  if (stat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) {
    RefuseInput(directory, name + " is missing", kMakeAgain);
  }
  const auto size = At(entry, "size").cast<int64_t>();
  if (facts.st_size != size) {
    RefuseInput(directory,
                name + (facts.st_size < size ? " is truncated: " : " is altered: ") + std::to_string(facts.st_size) +
                    " bytes, expected " + std::to_string(size),
                kMakeAgain);
  }
  if (DigestOfFile(path) != Text(entry, "sha256")) {
    RefuseInput(directory, name + " is altered: its sha256 differs from mod.json's", kMakeAgain);
  }
}

void CheckFiles(const std::string& directory, const json::Object& files) {
  for (const auto& [name, entry] : files) {
    const std::string file = name.cast<String>();
    if (file.empty() || file[0] == '.' || file.find('/') != std::string::npos) {
      RefuseInput(directory, "mod.json names a file outside the package: '" + file + "'", kMakeAgain);
    }
    CheckFile(directory, file, entry.cast<json::Object>());
  }
  for (const char* name : {kLibrary, kWeights}) {
    if (!files.count(String(name))) RefuseInput(directory, std::string(name) + " is not in the manifest", kMakeAgain);
  }
}

json::Object ReadDocument(const std::string& directory) {
  const std::string text = ReadFile(directory + "/" + kManifest);
  // First of all: it also refuses what is too deep for TVM's parser.
  const std::string canonical = CanonicalJsonWithout(text, "own_sha256");
  const auto document = json::Parse(text).cast<json::Object>();
  const auto version = At(document, "schema_version").as<int64_t>();
  if (version && *version == kLinksSchemaVersion) {
    RefuseInput(directory, "its functions give each other values, which only Python does",
                "join the functions without `links` and `separate_states`, and pass the values");
  }
  if (!version || *version < kOldestSchemaVersion || *version > kFunctionsSchemaVersion) {
    const bool is_newer = version && *version > kFunctionsSchemaVersion;
    RefuseInput(directory,
                "mod.json has schema version " + (version ? std::to_string(*version) : "?") + ", expected " +
                    std::to_string(kOldestSchemaVersion) + " to " + std::to_string(kFunctionsSchemaVersion),
                is_newer ? kRebuildRuntime : kMakeAgain);
  }
  if (DigestOf(canonical) != Text(document, "own_sha256")) {
    RefuseInput(directory, "mod.json is altered: its content differs from its own digest", kMakeAgain);
  }
  return document;
}

bool HasFunctions(const json::Object& document) {
  return At(document, "schema_version").cast<int64_t>() == kFunctionsSchemaVersion;
}

// Calls `read` on a directory, and names the directory whose manifest is damaged.
template <typename Reader>
auto Reading(const std::string& directory, Reader read) {
  try {
    return read(directory);
  } catch (const tvm::ffi::Error& error) {
    RefuseInput(directory, "mod.json is damaged (" + Cause(error.message()) + ")", kMakeAgain);
  } catch (const std::invalid_argument& error) {
    RefuseInput(directory, std::string("mod.json is damaged (") + error.what() + ")", kMakeAgain);
  }
}

bool IsFunctionName(const std::string& name) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  return !name.empty() && name.size() <= kLongestFunctionName && is_letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; });
}

std::vector<std::string> NamesOf(const std::string& directory, const json::Array& functions) {
  std::vector<std::string> names;
  for (const Any& row : functions) {
    names.push_back(Text(row.cast<json::Object>(), "name"));
    const std::string& name = names.back();
    if (!IsFunctionName(name)) RefuseInput(directory, "mod.json has a function '" + Printable(name) + "'", kMakeAgain);
    if (std::count(names.begin(), names.end(), name) > 1) {
      RefuseInput(directory, "mod.json has the function '" + name + "' twice", kMakeAgain);
    }
  }
  if (names.empty() || names.size() > kMostFunctions) {
    RefuseInput(directory, "mod.json has " + std::to_string(names.size()) + " functions", kMakeAgain);
  }
  return names;
}

// The weights and the files of the functions, each with its digest, and nothing else.
void CheckFunctionFiles(const std::string& directory, const std::vector<std::string>& functions,
                        const json::Object& files) {
  std::set<std::string> required = {kWeights}, allowed = {kWeights};
  for (const std::string& function : functions) {
    for (const char* file : {kManifest, kLibrary}) required.insert(function + "/" + file);
    for (const char* file : {kSelfTest, kTokenizer}) allowed.insert(function + "/" + file);
  }
  allowed.insert(required.begin(), required.end());
  for (const auto& [key, entry] : files) {
    const std::string name = key.cast<String>();
    if (!allowed.count(name)) {
      RefuseInput(directory, "mod.json lists '" + Printable(name) + "', which is not a file of a function", kMakeAgain);
    }
  }
  for (const std::string& name : required) {
    if (!files.count(String(name))) RefuseInput(directory, "mod.json does not list " + name, kMakeAgain);
  }
  for (const auto& [name, entry] : files) CheckFile(directory, name.cast<String>(), entry.cast<json::Object>());
}

std::string DigestIn(const json::Object& files, const std::string& name) {
  const auto found = files.find(String(name));
  return found == files.end() ? "" : Text((*found).second.cast<json::Object>(), "sha256");
}

// row: of the package's manifest; files: those of the package.
Manifest ReadFunction(const std::string& directory, const json::Object& row, const json::Object& files) {
  const std::string name = Text(row, "name"), own_directory = directory + "/" + name;
  const json::Object own = ReadDocument(own_directory);
  if (HasFunctions(own)) RefuseInput(own_directory, "is a package with functions inside another one", kMakeAgain);
  for (const char* file : {kLibrary, kSelfTest, kTokenizer}) {
    if (DigestIn(At(own, "files").cast<json::Object>(), file) != DigestIn(files, name + "/" + file)) {
      RefuseInput(directory, name + "/mod.json belongs to another " + file, kMakeAgain);
    }
  }
  Manifest manifest = Read(own);
  manifest.function = name;
  manifest.weights.clear();
  for (const Any& weight : At(row, "weights").cast<json::Array>()) manifest.weights.push_back(weight.cast<String>());
  if (manifest.weights.size() != manifest.parameters.size()) {
    RefuseInput(directory, "mod.json has " + std::to_string(manifest.weights.size()) + " weights for the " +
                               std::to_string(manifest.parameters.size()) + " parameters of '" + name + "'",
                kMakeAgain);
  }
  return manifest;
}

std::vector<Manifest> ReadFunctions(const std::string& directory, const json::Object& document) {
  const auto functions = At(document, "functions").cast<json::Array>();
  const auto files = At(document, "files").cast<json::Object>();
  CheckFunctionFiles(directory, NamesOf(directory, functions), files);
  std::vector<Manifest> manifests;
  for (const Any& function : functions) {
    const auto row = function.cast<json::Object>();
    manifests.push_back(Reading(directory + "/" + Text(row, "name"),
                                [&](const std::string&) { return ReadFunction(directory, row, files); }));
    if (DeviceOf(manifests.back()) != DeviceOf(manifests.front())) {
      RefuseInput(directory, "its functions are for several kinds of devices", kMakeAgain);
    }
  }
  return manifests;
}

bool IsSameState(const TensorSpec& one, const TensorSpec& other) {
  return one.name == other.name && one.dtype == other.dtype && one.shape == other.shape;
}

}  // namespace

std::string DeviceOf(const Manifest& manifest) {
  const std::string& kind = manifest.target_kind;
  return kind == "llvm" || kind == "c" ? "cpu" : kind;
}

std::string CodeDirectory(const std::string& package, const Manifest& manifest) {
  return manifest.function.empty() ? package : package + "/" + manifest.function;
}

PackageManifest PackageOf(const std::string& own_sha256, std::vector<Manifest> networks) {
  PackageManifest package{own_sha256, std::move(networks), {}, {}};
  for (Manifest& network : package.networks) {
    if (!network.function.empty()) package.functions.push_back(network.function);
    network.state_indices.clear();
    for (const TensorSpec& state : network.states) {
      auto known = std::find_if(package.states.begin(), package.states.end(),
                                [&](const PackageState& other) { return IsSameState(other.spec, state); });
      if (known == package.states.end()) known = package.states.insert(known, {state, {}});
      if (!network.function.empty()) known->functions.push_back(network.function);
      network.state_indices.push_back(static_cast<std::size_t>(known - package.states.begin()));
    }
  }
  return package;
}

std::size_t NetworkOf(const PackageManifest& package, const std::string& where, const std::string& function,
                      const std::string& choose) {
  std::string names;
  for (const std::string& name : package.functions) names += (names.empty() ? "" : ", ") + name;
  if (function.empty()) {
    if (package.networks.size() == 1) return 0;
    RefuseInput(where, "has several functions: " + names, choose);
  }
  for (std::size_t index = 0; index < package.functions.size(); ++index) {
    if (package.functions[index] == function) return index;
  }
  RefuseInput(where, "has no function '" + Printable(function) + "'",
              names.empty() ? "it has only one network" : "its functions are " + names);
}

PackageManifest VerifyPackage(const std::string& directory) {
  struct stat facts;
  if (stat(directory.c_str(), &facts) != 0) RefuseInput(directory, "no such package", "`tvmake make` makes it");
  if (!S_ISDIR(facts.st_mode)) {
    RefuseInput(directory, "is a file, not an unpacked package", "unpack it: mkdir p && tar -xf package.tar -C p");
  }
  if (stat((directory + "/" + kManifest).c_str(), &facts) != 0) RefuseInput(directory, "mod.json is missing", kMakeAgain);
  return Reading(directory, [](const std::string& package) {
    const json::Object document = ReadDocument(package);
    const std::string own_sha256 = Text(document, "own_sha256");
    if (HasFunctions(document)) return PackageOf(own_sha256, ReadFunctions(package, document));
    CheckFiles(package, At(document, "files").cast<json::Object>());
    return PackageOf(own_sha256, {Read(document)});
  });
}

}  // namespace tvmake
