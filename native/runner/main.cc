// tvmake-run: check, load, run and time a package, without Python. `tvmake-run --help` lists its options.

#include <stdlib.h>
#include <tvm/ffi/error.h>

#include <cstdio>
#include <exception>
#include <optional>

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

namespace {

using namespace tvmake;

constexpr int kUsageError = 2, kGoalsMissed = 4;
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
  const Manifest manifest = VerifyPackage(options.package);
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
    VirtualMachine machine(options.package, manifest, device);
    timing.load_ms = NowMs() - began;
    timing.first_run_ms = RunSamples(&machine, manifest, request, inputs, outputs ? &*outputs : nullptr);
    if (request.measurement) Measure(&machine, *request.measurement, &timing);
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

// Whether the package gives what the original framework gave.
bool Test(const Options& options) {
  const Manifest manifest = VerifyPackage(options.package);
  RequireSelfTest(manifest, options.package);
  for (const std::string& library : options.libraries) LoadLibrary(library);
  const DLDevice device = OpenDevice(DeviceOf(options, manifest));
  try {
    VirtualMachine machine(options.package, manifest, device);
    return RunSelfTest(&machine, manifest, options.package);
  } catch (const tvm::ffi::Error& error) {
    FailDevice(options.package, "running it failed: " + Cause(error.message()));
  }
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
