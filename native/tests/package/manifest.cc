#include "manifest.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "canonical_json.h"
#include "file_digest.h"
#include "sha256.h"
#include "temporary_directory.h"

using namespace tvmake;
using namespace tvmake::testing;

namespace {

constexpr char kLibraryContent[] = "no library";

std::string FileEntry(const std::string& content) {
  return R"({"sha256":")" + DigestOf(content) + R"(","size":)" + std::to_string(content.size()) + "}";
}

std::string Files() {
  return R"({"mod.params":)" + FileEntry("weights") + R"(,"mod.so":)" + FileEntry(kLibraryContent) + "}";
}

std::string Body(const std::string& files = Files(), const std::string& version = "2") {
  return R"({"files":)" + files +
         R"(,"kernels":[],"model":"net","parameters":[{"name":"w"}],"precision":"float32","schema_version":)" + version +
         R"(,"signature":{"bounds":{"n":[0,512],"past":[4,null]},"inputs":[{"dtype":"float32","name":"x","range":[-1,1],"relax_name":"x_1","shape":["n",3]}],)"
         R"("outputs":[{"dtype":"int64","name":"y","range":null,"shape":[]}]},"target":{"kind":"llvm"},"target_name":"cpu"})";
}

// A package whose mod.json is right about its own digest.
class TestPackage {
 public:
  explicit TestPackage(const std::string& body = Body()) {
    WriteFile(directory / "mod.so", kLibraryContent);
    WriteFile(directory / "mod.params", "weights");
    WriteManifest(body);
  }

  void WriteManifest(const std::string& body) {
    const std::string digest = DigestOf(CanonicalJsonWithout(body, ""));
    WriteFile(directory / "mod.json", R"({"own_sha256":")" + digest + R"(",)" + body.substr(1));
  }

  // The problem that the package is refused for; empty when it is accepted.
  std::string Problem() const {
    try {
      VerifyPackage(directory.path());
      return "";
    } catch (const Error& error) {
      CHECK(error.fault() == Fault::kInput);
      const std::string text = error.what(), prefix = directory.path().string() + ": ";
      REQUIRE(text.rfind(prefix, 0) == 0);
      return text.substr(prefix.size(), text.find('\n') - prefix.size());
    }
  }

  const TemporaryDirectory directory;
};

}  // namespace

TEST_CASE("a manifest is read back unchanged") {
  const TestPackage package;
  const Manifest manifest = VerifyPackage(package.directory.path()).networks[0];
  CHECK(manifest.model == "net");
  CHECK(manifest.precision == "float32");
  CHECK(manifest.target_name == "cpu");
  CHECK(manifest.target_kind == "llvm");
  CHECK(manifest.parameters == std::vector<std::string>{"w"});
  CHECK(manifest.arguments == std::vector<std::string>{"x_1", "w"});
  CHECK_FALSE(manifest.has_kernels);
  REQUIRE(manifest.inputs.size() == 1);
  const TensorSpec& input = manifest.inputs[0];
  CHECK(input.name == "x");
  CHECK(input.dtype == "float32");
  CHECK(input.shape == std::vector<int64_t>{kDynamic, 3});
  CHECK(input.names == std::vector<std::string>{"n", ""});
  CHECK(input.has_range);
  CHECK(input.low == -1);
  CHECK(input.high == 1);
  REQUIRE(manifest.bounds.size() == 2);
  CHECK(manifest.bounds.at("n").least == 0);
  CHECK(manifest.bounds.at("n").most == 512);
  CHECK(manifest.bounds.at("past").least == 4);
  CHECK_FALSE(manifest.bounds.at("past").most.has_value());
  REQUIRE(manifest.outputs.size() == 1);
  CHECK(manifest.outputs[0].shape.empty());
  CHECK_FALSE(manifest.outputs[0].has_range);
}

TEST_CASE("altered, truncated and missing files are refused") {
  TestPackage package;
  CHECK(package.Problem() == "");
  SUBCASE("altered") {
    WriteFile(package.directory / "mod.so", "mo library");
    CHECK(package.Problem() == "mod.so is altered: its sha256 differs from mod.json's");
  }
  SUBCASE("longer") {
    WriteFile(package.directory / "mod.params", "weights!");
    CHECK(package.Problem() == "mod.params is altered: 8 bytes, expected 7");
  }
  SUBCASE("truncated") {
    WriteFile(package.directory / "mod.params", "");
    CHECK(package.Problem() == "mod.params is truncated: 0 bytes, expected 7");
  }
  SUBCASE("missing") {
    std::filesystem::remove(package.directory / "mod.so");
    CHECK(package.Problem() == "mod.so is missing");
  }
  SUBCASE("a directory instead of a file") {
    std::filesystem::remove(package.directory / "mod.so");
    std::filesystem::create_directory(package.directory / "mod.so");
    CHECK(package.Problem() == "mod.so is missing");
  }
  SUBCASE("no manifest") {
    std::filesystem::remove(package.directory / "mod.json");
    CHECK(package.Problem() == "mod.json is missing");
  }
}

TEST_CASE("a manifest that was edited is refused, one that was only reformatted is not") {
  TestPackage package;
  std::string text = ContentOf(package.directory / "mod.json");
  SUBCASE("edited") {
    text.replace(text.find("net"), 3, "ten");
    WriteFile(package.directory / "mod.json", text);
    CHECK(package.Problem() == "mod.json is altered: its content differs from its own digest");
  }
  SUBCASE("reformatted") {
    for (std::size_t at = 0; (at = text.find(",\"", at)) != std::string::npos; at += 3) text.insert(at + 1, "\n");
    WriteFile(package.directory / "mod.json", text);
    CHECK(package.Problem() == "");
  }
}

TEST_CASE("another schema version is named") {
  CHECK(TestPackage(Body(Files(), "7")).Problem() == "mod.json has schema version 7, expected 2 to 5");
  CHECK(TestPackage(Body(Files(), "6")).Problem() == "its functions give each other values, which only Python does");
  CHECK(TestPackage(Body(Files(), "1")).Problem() == "mod.json has schema version 1, expected 2 to 5");
  CHECK(TestPackage(Body(Files(), "\"2\"")).Problem() == "mod.json has schema version ?, expected 2 to 5");
}

TEST_CASE("a package of a later version tells to rebuild the runtime, one of an earlier version to rebuild the package") {
  for (const auto& [version, remedy] :
       {std::pair{"7", "rebuild the runtime with the tvmake that wrote the package: `tvmake runtime build`"},
        {"1", "rebuild the package with `tvmake make`, or copy it again from its source"}}) {
    const TestPackage package(Body(Files(), version));
    const std::string text = package.directory.path().string() + ": mod.json has schema version " + version +
                             ", expected 2 to 5\n  " + remedy;
    CHECK_THROWS_WITH_AS(VerifyPackage(package.directory.path()), text.c_str(), Error);
  }
}

TEST_CASE("states are behind the inputs, and their next values behind the outputs") {
  std::string body = Body(Files(), "4");
  const std::string states =
      R"("states":[{"name":"h","relax_name":"h_0","dtype":"float16","shape":["n",2],"range":null,)"
      R"("next":{"name":"hn","relax_name":"hn_0","dtype":"float16","shape":["n",2],"range":null},"places":[1,1]}],)";
  body.insert(body.find(R"("bounds")"), states);
  const TestPackage package(body);
  const Manifest manifest = VerifyPackage(package.directory.path()).networks[0];
  CHECK(manifest.own_sha256 == DigestOf(CanonicalJsonWithout(body, "")));
  CHECK(manifest.arguments == std::vector<std::string>{"x_1", "h_0", "w"});
  CHECK(manifest.inputs.size() == 1);
  CHECK(manifest.outputs.size() == 1);
  REQUIRE(manifest.states.size() == 1);
  CHECK(manifest.states[0].name == "h");
  CHECK(manifest.states[0].dtype == "float16");
  CHECK(manifest.states[0].shape == std::vector<int64_t>{kDynamic, 2});
  REQUIRE(manifest.next_states.size() == 1);
  CHECK(manifest.next_states[0].name == "hn");
}

TEST_CASE("a manifest cannot reach files outside the package") {
  for (const char* name : {"../mod.so", "/etc/passwd", "a/b", ".", "..", ".hidden", ""}) {
    CAPTURE(name);
    const std::string files = R"({")" + std::string(name) + R"(":)" + FileEntry("") + "}";
    CHECK(TestPackage(Body(files)).Problem() ==
          "mod.json names a file outside the package: '" + std::string(name) + "'");
  }
}

TEST_CASE("a manifest that leaves out the code or the weights is refused") {
  CHECK(TestPackage(Body("{}")).Problem() == "mod.so is not in the manifest");
  CHECK(TestPackage(Body(R"({"mod.so":)" + FileEntry(kLibraryContent) + "}")).Problem() ==
        "mod.params is not in the manifest");
}

TEST_CASE("damaged manifests are refused whatever they hold") {
  TestPackage package;
  const std::string whole = ContentOf(package.directory / "mod.json");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    WriteFile(package.directory / "mod.json", whole.substr(0, size));
    CAPTURE(size);
    CHECK(package.Problem() != "");
  }
  for (const char* body : {"{}", R"({"schema_version":2})", R"({"schema_version":2,"files":[]})",
                           R"({"schema_version":2,"files":{"mod.so":3}})",
                           R"({"schema_version":2,"files":{"mod.so":{"size":"1","sha256":2}}})"}) {
    CAPTURE(body);
    package.WriteManifest(std::string(body) == "{}" ? R"({"a":1})" : body);
    CHECK(package.Problem() != "");
  }
  for (const std::string& text :
       {std::string("[]"), std::string("null"), std::string(100000, '['), std::string(1, '\0')}) {
    WriteFile(package.directory / "mod.json", text);
    CHECK(package.Problem() != "");
  }
}

TEST_CASE("a file that is not a directory is not a package") {
  const TemporaryDirectory directory;
  WriteFile(directory / "package.tar", "");
  CHECK_THROWS_WITH_AS(VerifyPackage(directory / "package.tar"),
                       (directory / "package.tar" +
                        ": is a file, not an unpacked package\n  unpack it: mkdir p && tar -xf package.tar -C p")
                           .c_str(),
                       Error);
  CHECK_THROWS_AS(VerifyPackage(directory / "absent"), Error);
}

TEST_CASE("files are read and digested whole") {
  const TemporaryDirectory directory;
  std::string content;
  for (int i = 0; i < 3000000; ++i) content.push_back(static_cast<char>(i * 31));
  WriteFile(directory / "file", content);
  CHECK(ReadFile(directory / "file") == content);
  CHECK(DigestOfFile(directory / "file") == DigestOf(content));
  CHECK_THROWS_AS(ReadFile(directory / "absent"), Error);
  CHECK_THROWS_AS(DigestOfFile(directory.path()), Error);
}
