#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <string>

#include "canonical_json.h"
#include "manifest.h"
#include "sha256.h"
#include "temporary_directory.h"

using namespace tvmake;
using namespace tvmake::testing;

namespace {

std::string FileEntry(const std::string& content) {
  return R"({"sha256":")" + DigestOf(content) + R"(","size":)" + std::to_string(content.size()) + "}";
}

std::string Seal(const std::string& body) {
  return R"({"own_sha256":")" + DigestOf(CanonicalJsonWithout(body, "")) + R"(",)" + body.substr(1);
}

// A function with one parameter and the states "cache" and, unless it is empty, `own`.
std::string FunctionBody(const std::string& library, const std::string& own = "", const std::string& kind = "llvm",
                         const std::string& version = "4") {
  std::string states;
  for (const std::string& name : {std::string("cache"), own}) {
    if (name.empty()) continue;
    states += std::string(states.empty() ? "" : ",") + R"({"name":")" + name +
              R"(","relax_name":"s","dtype":"float32","shape":[1,"past_of_)" + own +
              R"("],"next":{"name":"n","dtype":"float32","shape":[1,"total"]}})";
  }
  return R"({"files":{"mod.params":)" + FileEntry("its own") + R"(,"mod.so":)" + FileEntry(library) +
         R"(},"kernels":[],"model":"net","parameters":[{"name":"w"}],"precision":"float32","schema_version":)" + version +
         R"(,"signature":{"inputs":[],"outputs":[],"states":[)" + states + R"(]},"target":{"kind":")" + kind +
         R"("},"target_name":"cpu"})";
}

// The functions encode and decode, over the weights a and b.
class TestPackage {
 public:
  TestPackage() {
    files["mod.params"] = "weights";
    files["encode/mod.so"] = "encode's code";
    files["decode/mod.so"] = "decode's code";
    files["encode/mod.json"] = Seal(FunctionBody("encode's code"));
    files["decode/mod.json"] = Seal(FunctionBody("decode's code", "h"));
    Write();
  }

  // Write all files, and a mod.json that lists them.
  void Write() {
    std::string entries;
    for (const auto& [name, content] : files) {
      std::filesystem::create_directories((directory / name).substr(0, (directory / name).rfind('/')));
      WriteFile(directory / name, content);
      entries += (entries.empty() ? "\"" : ",\"") + name + "\":" + FileEntry(content);
    }
    WriteFile(directory / "mod.json",
              Seal(R"({"files":{)" + entries + R"(},"functions":)" + functions +
                   R"(,"model":"speech","precision":"float32","provenance":{},"schema_version":5,"target_name":"cpu"})"));
  }

  // The problem that the package is refused for; empty when it is accepted.
  std::string Problem() const {
    try {
      VerifyPackage(directory.path());
      return "";
    } catch (const Error& error) {
      CHECK(error.fault() == Fault::kInput);
      const std::string text = error.what(), prefix = directory.path().string();
      REQUIRE(text.rfind(prefix, 0) == 0);
      return text.substr(prefix.size(), text.find('\n') - prefix.size());
    }
  }

  std::map<std::string, std::string> files;
  std::string functions = R"([{"name":"encode","weights":["a"]},{"name":"decode","weights":["b"]}])";
  const TemporaryDirectory directory;
};

}  // namespace

TEST_CASE("functions have their weights, and share the states of one name, type and shape") {
  const TestPackage files;
  const PackageManifest package = VerifyPackage(files.directory.path());
  CHECK(package.functions == std::vector<std::string>{"encode", "decode"});
  REQUIRE(package.networks.size() == 2);
  CHECK(package.networks[1].function == "decode");
  CHECK(package.networks[1].parameters == std::vector<std::string>{"w"});
  CHECK(package.networks[1].weights == std::vector<std::string>{"b"});
  CHECK(package.own_sha256 != package.networks[0].own_sha256);
  REQUIRE(package.states.size() == 2);
  CHECK(package.states[0].spec.name == "cache");
  CHECK(package.states[0].functions == std::vector<std::string>{"encode", "decode"});
  CHECK(package.states[1].functions == std::vector<std::string>{"decode"});
  CHECK(package.networks[0].state_indices == std::vector<std::size_t>{0});
  CHECK(package.networks[1].state_indices == std::vector<std::size_t>{0, 1});
  CHECK(CodeDirectory("p", package.networks[0]) == "p/encode");
}

TEST_CASE("a function is found by its name, and one of several has to be named") {
  const TestPackage files;
  const PackageManifest package = VerifyPackage(files.directory.path());
  CHECK(NetworkOf(package, "p", "decode", "") == 1);
  CHECK_THROWS_WITH_AS(NetworkOf(package, "p", "", "choose"), "p: has several functions: encode, decode\n  choose", Error);
  CHECK_THROWS_WITH_AS(NetworkOf(package, "p", "x", ""), "p: has no function 'x'\n  its functions are encode, decode", Error);
  const PackageManifest single = PackageOf("", {Manifest()});
  CHECK(NetworkOf(single, "p", "", "") == 0);
  CHECK_THROWS_WITH_AS(NetworkOf(single, "p", "x", ""), "p: has no function 'x'\n  it has only one network", Error);
}

TEST_CASE("altered and foreign files of functions are refused") {
  TestPackage package;
  CHECK(package.Problem() == "");
  SUBCASE("altered code") {
    WriteFile(package.directory / "decode/mod.so", "decode's c0de");
    CHECK(package.Problem() == ": decode/mod.so is altered: its sha256 differs from mod.json's");
  }
  SUBCASE("a directory that is missing") {
    std::filesystem::remove_all(package.directory / "decode");
    CHECK(package.Problem() == ": decode/mod.json is missing");
  }
  SUBCASE("a replaced manifest") {
    WriteFile(package.directory / "decode/mod.json", Seal(FunctionBody("decode's code", "k")));
    CHECK(package.Problem() == ": decode/mod.json is altered: its sha256 differs from mod.json's");
  }
  SUBCASE("the manifest of other code") {
    package.files["decode/mod.json"] = Seal(FunctionBody("other code", "h"));
    package.Write();
    CHECK(package.Problem() == ": decode/mod.json belongs to another mod.so");
  }
  SUBCASE("a manifest that was edited") {
    package.files["decode/mod.json"].replace(package.files["decode/mod.json"].find("net"), 3, "ten");
    package.Write();
    CHECK(package.Problem() == "/decode: mod.json is altered: its content differs from its own digest");
  }
  SUBCASE("a damaged manifest") {
    package.files["decode/mod.json"] = "{";
    package.Write();
    CHECK(package.Problem().rfind("/decode: mod.json is damaged (", 0) == 0);
  }
  SUBCASE("functions inside a function") {
    package.files["decode/mod.json"] = ContentOf(package.directory / "mod.json");
    package.Write();
    CHECK(package.Problem() == "/decode: is a package with functions inside another one");
  }
  SUBCASE("a file that belongs to no function") {
    for (const char* name : {"encode/more.so", "other/mod.so", "mod.so", "../mod.so", "encode/../mod.so", ".x", ""}) {
      TestPackage larger;
      const std::string whole = ContentOf(larger.directory / "mod.json");
      std::string body = whole.substr(whole.find(',') + 1);
      body.insert(body.find("{", 1) + 1, "\"" + std::string(name) + "\":" + FileEntry("") + ",");
      WriteFile(larger.directory / "mod.json", Seal("{" + body));
      CHECK(larger.Problem() == ": mod.json lists '" + std::string(name) + "', which is not a file of a function");
    }
  }
  SUBCASE("a function without code") {
    package.files.erase("decode/mod.so");
    package.Write();
    CHECK(package.Problem() == ": mod.json does not list decode/mod.so");
  }
  SUBCASE("another kind of device") {
    package.files["decode/mod.json"] = Seal(FunctionBody("decode's code", "h", "opencl"));
    package.Write();
    CHECK(package.Problem() == ": its functions are for several kinds of devices");
  }
}

TEST_CASE("lists of functions that no package has are refused") {
  TestPackage package;
  for (const auto& [functions, problem] : std::map<std::string, std::string>{
           {"[]", ": mod.json has 0 functions"},
           {R"([{"name":"../x","weights":[]}])", ": mod.json has a function '../x'"},
           {R"([{"name":"","weights":[]}])", ": mod.json has a function ''"},
           {R"([{"name":"Encode","weights":[]}])", ": mod.json has a function 'Encode'"},
           {R"([{"name":"encode","weights":["a"]},{"name":"encode","weights":["a"]}])",
            ": mod.json has the function 'encode' twice"},
           {R"([{"name":"encode","weights":["a"]},{"name":"decode","weights":["a","b"]}])",
            ": mod.json has 2 weights for the 1 parameters of 'decode'"},
           {R"([{"name":"encode","weights":["a"]}])", ": mod.json lists 'decode/mod.json', which is not a file of a function"},
       }) {
    CAPTURE(functions);
    package.functions = functions;
    package.Write();
    CHECK(package.Problem() == problem);
  }
}
