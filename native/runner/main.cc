// tvmake-run: check, load, run and time a package, without Python. `tvmake-run --help` lists its options.

#include <stdlib.h>
#include <tvm/ffi/error.h>

#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "device.h"
#include "errors.h"
#include "fingerprint.h"
#include "inputs.h"
#include "manifest.h"
#include "measure.h"
#include "options.h"
#include "output_file.h"
#include "result.h"
#include "self_test.h"
#include "virtual_machine.h"
#include "weights.h"

namespace {

using namespace tvmake;

constexpr int kUsageError = 2, kGoalsMissed = 4;
constexpr char kChoose[] = "choose one: --function NAME";
constexpr char kThreads[] = "TVM_NUM_THREADS";  // read by TVM's thread pool

Request RequestOf(const Options& options) {
  if (!options.request.empty()) return ReadRequest(options.request);
  Request request;
  request.samples = options.samples;
  request.steps = options.steps;
  request.measurement = options.measurement;
  return request;
}

std::string DeviceOf(const Options& options, const Manifest& manifest) {
  return options.device.empty() ? DeviceOf(manifest) : options.device;
}

// 0 when nobody has set a limit.
int64_t Threads() {
  const char* set = getenv(kThreads);
  return set ? strtoll(set, nullptr, 10) : 0;
}

void Run(const Options& options) {
  const PackageManifest package = VerifyPackage(options.package);
  const Manifest& manifest = package.networks[NetworkOf(package, options.package, options.function, kChoose)];
  const Request request = RequestOf(options);
  const InputSource inputs = OpenInputs(manifest, options);
  for (const std::string& library : options.libraries) LoadLibrary(library);
  const std::string kind = DeviceOf(options, manifest);
  const DLDevice device = OpenDevice(kind);
  std::optional<NpzWriter> outputs;
  if (!options.outputs.empty() && request.want_outputs) outputs.emplace(options.outputs);

  Timing timing;
  timing.baseline_memory_bytes = ResidentMemory();
  try {
    const double began = NowMs();
    Weights weights(options.package, device);
    VirtualMachine machine(options.package, manifest, &weights);
    timing.load_ms = NowMs() - began;
    timing.first_run_ms = RunSamples(&machine, manifest, request, inputs, outputs ? &*outputs : nullptr);
    if (request.measurement) Measure(&machine, request, inputs, &timing);
    timing.clml = ClmlSummary();
  } catch (const tvm::ffi::Error& error) {
    FailDevice(options.package, "running it failed: " + Cause(error.message()));
  }
  timing.peak_memory_bytes = PeakMemory();

  if (outputs) outputs->Finish();
  const Fingerprint fingerprint = TakeFingerprint(kind, device, Threads());
  if (!options.result.empty()) {
    const std::string text = ResultJson(timing, fingerprint);
    OutputFile file(options.result);
    file.Write(text.data(), text.size());
    file.Finish();
  }
  if (options.request.empty()) std::fputs(SummaryJson(manifest, timing, fingerprint).c_str(), stdout);
}

// The networks that a self-test runs: the chosen one, the only one, or all functions that have samples.
std::vector<Manifest> NetworksToTest(const Options& options) {
  const PackageManifest package = VerifyPackage(options.package);
  if (!options.function.empty() || package.functions.empty()) {
    const std::size_t index = NetworkOf(package, options.package, options.function, kChoose);
    RequireSelfTest(package.networks[index], CodeDirectory(options.package, package.networks[index]));
    return {package.networks[index]};
  }
  std::vector<Manifest> networks;
  for (const Manifest& manifest : package.networks) {
    if (HasSelfTest(manifest)) networks.push_back(manifest);
    else std::fprintf(stderr, "note: function %s has no self-test\n", manifest.function.c_str());
  }
  if (networks.empty()) RequireSelfTest(package.networks[0], CodeDirectory(options.package, package.networks[0]));
  return networks;
}

// Whether the package gives what the original framework gave.
bool Test(const Options& options) {
  const std::vector<Manifest> networks = NetworksToTest(options);
  for (const std::string& library : options.libraries) LoadLibrary(library);
  bool is_right = true;
  try {
    Weights weights(options.package, OpenDevice(DeviceOf(options, networks[0])));
    for (const Manifest& manifest : networks) {
      if (!manifest.function.empty()) std::printf("function %s\n", manifest.function.c_str());
      VirtualMachine machine(options.package, manifest, &weights);
      is_right = RunSelfTest(&machine, manifest, CodeDirectory(options.package, manifest)) && is_right;
    }
  } catch (const tvm::ffi::Error& error) {
    FailDevice(options.package, "running it failed: " + Cause(error.message()));
  }
  return is_right;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = ParseOptions(argc, argv);
    if (options.is_help || options.is_version) {
      std::fputs(options.is_help ? kUsage : "tvmake-run for apache-tvm " TVMAKE_TVM_VERSION "\n", stdout);
      return 0;
    }
    // The runtime starts its threads at the first kernel.
    if (options.threads) setenv(kThreads, std::to_string(options.threads).c_str(), 1);
    if (options.is_self_test) return Test(options) ? 0 : kGoalsMissed;
    Run(options);
    std::fflush(stdout);
    return 0;
  } catch (const UsageError& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return kUsageError;
  } catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(error.fault());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", Cause(error.what()).c_str());
    return static_cast<int>(Fault::kDevice);
  }
}
