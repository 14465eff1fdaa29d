#include "snapshot.h"

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/json.h>

#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>

#include "canonical_json.h"
#include "errors.h"
#include "sha256.h"
#include "virtual_machine.h"

namespace tvmake {
namespace {

namespace json = tvm::ffi::json;
using tvm::ffi::Any;
using tvm::ffi::String;

constexpr char kMagic[] = "TVMAKE-STATE-1\n";
constexpr std::size_t kMagicSize = sizeof kMagic - 1;

[[noreturn]] void Refuse(const std::string& problem) { RefuseInput("snapshot", problem, "take it again"); }

std::string Row(const PackageState& state, const std::vector<int64_t>& shape) {
  std::string extents, functions;
  for (const int64_t extent : shape) extents += (extents.empty() ? "" : ",") + std::to_string(extent);
  for (const std::string& function : state.functions) functions += (functions.empty() ? "" : ",") + JsonText(function);
  if (!functions.empty()) functions = R"("functions":[)" + functions + "],";
  return R"({"dtype":)" + JsonText(state.spec.dtype) + "," + functions + R"("name":)" + JsonText(state.spec.name) +
         R"(,"shape":[)" + extents + "]}";
}

std::string Header(const PackageManifest& package, const StateValues& states, const std::string& sha256) {
  std::string rows;
  for (std::size_t index = 0; index < states.size(); ++index) {
    if (states[index]) rows += (rows.empty() ? "" : ",") + Row(package.states[index], states[index]->shape);
  }
  return R"({"package":)" + JsonText(package.own_sha256) + R"(,"sha256":)" + JsonText(sha256) + R"(,"states":[)" + rows +
         "]}";
}

// What a header tells of the states, and of its data's digest; it is not compared with the package yet.
struct Content {
  std::string package, sha256;
  std::vector<Tensor> states;  // without data
  std::vector<std::string> names, functions;  // of each state, the first function
};

Content ParseHeader(const std::string& line) {
  CanonicalJsonWithout(line, "");  // refuses what is too deep for TVM's parser
  const auto header = json::Parse(line).cast<json::Object>();
  const auto at = [](const json::Object& object, const char* key) {
    const auto found = object.find(String(key));
    if (found == object.end()) throw std::invalid_argument(key);
    return (*found).second;
  };
  Content content;
  content.package = at(header, "package").cast<String>();
  content.sha256 = at(header, "sha256").cast<String>();
  for (const Any& row : at(header, "states").cast<json::Array>()) {
    const auto fields = row.cast<json::Object>();
    Tensor& state = content.states.emplace_back();
    state.dtype = at(fields, "dtype").cast<String>();
    content.names.push_back(at(fields, "name").cast<String>());
    content.functions.emplace_back();
    if (const auto found = fields.find(String("functions")); found != fields.end()) {
      const auto functions = (*found).second.cast<json::Array>();
      if (functions.empty()) throw std::invalid_argument("functions");
      content.functions.back() = functions[0].cast<String>();
    }
    for (const Any& extent : at(fields, "shape").cast<json::Array>()) state.shape.push_back(extent.cast<int64_t>());
  }
  return content;
}

Content ReadHeader(const std::string& line) {
  try {
    return ParseHeader(line);
  } catch (const tvm::ffi::Error&) {
  } catch (const std::invalid_argument&) {
  }
  Refuse("is altered: its header is damaged");
}

// Each state of a header at its place in the package; nothing if the package has no such states in this order.
std::optional<StateValues> Place(const PackageManifest& package, const Content& content) {
  StateValues states(package.states.size());
  std::size_t place = 0;
  for (std::size_t index = 0; index < content.states.size(); ++index) {
    const Tensor& value = content.states[index];
    const auto is_at = [&](std::size_t candidate) {
      const PackageState& state = package.states[candidate];
      const std::string function = state.functions.empty() ? "" : state.functions[0];
      return state.spec.name == content.names[index] && function == content.functions[index] &&
             Fits(state.spec, value.dtype, value.shape);
    };
    while (place < states.size() && !is_at(place)) ++place;
    if (place == states.size()) return std::nullopt;
    states[place++] = value;
  }
  // In a package with one network all states begin together.
  const bool is_whole = content.states.empty() || content.states.size() == states.size();
  if (package.functions.empty() && !is_whole) return std::nullopt;
  return states;
}

}  // namespace

std::vector<uint8_t> WriteSnapshot(const PackageManifest& package, const StateValues& states) {
  Sha256 sha256;
  std::size_t size = 0;
  for (const std::optional<Tensor>& state : states) {
    if (!state) continue;
    sha256.Add(state->data.data(), state->data.size());
    size += state->data.size();
  }
  const std::string head = kMagic + Header(package, states, sha256.Hex()) + "\n";
  std::vector<uint8_t> bytes;
  bytes.reserve(head.size() + size);
  bytes.insert(bytes.end(), head.begin(), head.end());
  for (const std::optional<Tensor>& state : states) {
    if (state) bytes.insert(bytes.end(), state->data.begin(), state->data.end());
  }
  return bytes;
}

StateValues ReadSnapshot(const PackageManifest& package, const void* data, std::size_t bytes) {
  const auto* const begin = static_cast<const uint8_t*>(data);
  if (bytes < kMagicSize || std::memcmp(begin, kMagic, kMagicSize) != 0) Refuse("is not a snapshot of a package's states");
  const auto* const line = begin + kMagicSize;
  const auto* const end = static_cast<const uint8_t*>(std::memchr(line, '\n', bytes - kMagicSize));
  if (!end) Refuse("is truncated: its header has no end");
  const std::string text(line, end);
  const Content content = ReadHeader(text);
  if (content.package != package.own_sha256) {
    RefuseInput("snapshot", "belongs to another package: its sha256 begins with " + Printable(content.package.substr(0, 12)) +
                                ", this one's with " + package.own_sha256.substr(0, 12),
                "restore it in the package that it was taken from");
  }
  std::optional<StateValues> states = Place(package, content);
  if (!states || Header(package, *states, content.sha256) != text) Refuse("is altered: its header has other states");
  const auto* at = end + 1;
  std::size_t left = bytes - static_cast<std::size_t>(at - begin), size = 0;
  for (const std::optional<Tensor>& state : *states) size += state ? BytesOf(state->dtype, state->shape) : 0;
  if (left != size) {
    Refuse((left < size ? "is truncated: " : "is altered: ") + std::to_string(left) + " bytes of states, expected " +
           std::to_string(size));
  }
  Sha256 sha256;
  sha256.Add(at, left);
  if (sha256.Hex() != content.sha256) Refuse("is altered: its content differs from its own digest");
  for (std::optional<Tensor>& state : *states) {
    if (!state) continue;
    const std::size_t part = BytesOf(state->dtype, state->shape);
    state->data.assign(at, at + part);
    at += part;
  }
  return std::move(*states);
}

}  // namespace tvmake
