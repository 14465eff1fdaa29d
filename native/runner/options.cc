#include "options.h"

#include <cstdlib>
#include <set>
#include <utility>

namespace tvmake {

const char kUsage[] =
    R"(usage: tvmake-run --package DIR [options]

Check a package against its digests, load it, run it and time it.

  --package DIR       an unpacked package: mod.so, mod.json, mod.params
  --function NAME     what to run of a package with several functions
  --device KIND       cpu, opencl ...; left out, what the package was compiled for
  --threads N         threads of CPU kernels; left out, one per core
  --load-library SO   something to add to the runtime; may be repeated
  --inputs IN.npz     inputs (input/NAME/00000.npy ...); left out, random ones
  --dim NAME=N        a dynamic dimension of random inputs; may be repeated
  --outputs OUT.npz   where outputs go (output/NAME/00000.npy ...)
  --result RES.json   where the raw figures go
  --self-test         run the package's own samples instead, and compare with what the original framework made of them;
                      of a package with several functions those of all, or of --function

What to do, from a file:
  --request REQ.json  samples, repeat_first, measurement; needs --result

or by these:
  --samples N         inputs to run (1)
  --steps N           samples in a sequence: states restart with each; left out, all are one
  --warmup N          runs before timing (3)
  --runs N            timed samples (20)
  --number N          runs averaged into one sample (1)
  --min-repeat-ms MS  raise the number until a sample takes this long
  --min-duration S    go on taking samples until this much time was measured
  --cooldown S        pause between samples
  --profile           time every kernel as well

Without --request a summary is printed as JSON.
Exit codes: 0 done; 1 the package or an input is wrong; 2 usage; 3 this device lacks something or failed;
4 the self-test found a wrong output.
)";

namespace {

// What a request says too.
const std::set<std::string> kMeasuring = {"--samples",       "--steps",        "--warmup",   "--runs",     "--number",
                                          "--min-repeat-ms", "--min-duration", "--cooldown", "--profile"};

// What a self-test takes.
const std::set<std::string> kSelfTesting = {"--self-test", "--package",  "--function",
                                            "--device",    "--threads", "--load-library"};

double Duration(const std::string& flag, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end || !(value >= 0 && value < 1e9)) {
    throw UsageError(flag + ": expected a number of 0 or more (got '" + text + "')");
  }
  return value;
}

}  // namespace

Options ParseOptions(int argc, char** argv) {
  Options options;
  Measurement& how = options.measurement;
  CommandLine line;
  line.Text("--package", &options.package);
  line.Text("--function", &options.function);
  line.Text("--request", &options.request);
  line.Text("--inputs", &options.inputs);
  line.Text("--outputs", &options.outputs);
  line.Text("--result", &options.result);
  line.Text("--device", &options.device);
  line.Number("--threads", &options.threads, 1);
  line.Each("--load-library", &options.libraries);
  line.Value("--dim", [&](const std::string& extent) {
    const std::size_t sign = extent.find('=');
    if (sign == 0 || sign == std::string::npos) throw UsageError("--dim: expected NAME=N (got '" + extent + "')");
    options.extents[extent.substr(0, sign)] = WholeNumber("--dim", extent.substr(sign + 1), 0);
  });
  line.Number("--samples", &options.samples, 1);
  line.Number("--steps", &options.steps, 1);
  line.Number("--warmup", &how.warmup, 0);
  line.Number("--runs", &how.repeat, 1);
  line.Number("--number", &how.number, 1);
  line.Switch("--profile", &how.profile_ops);
  line.Switch("--self-test", &options.is_self_test);
  for (const auto& [flag, seconds] : {std::pair{"--min-repeat-ms", &how.min_repeat_ms},
                                      {"--min-duration", &how.min_duration_s},
                                      {"--cooldown", &how.cooldown_s}}) {
    line.Value(flag, [flag = flag, seconds = seconds](const std::string& text) { *seconds = Duration(flag, text); });
  }

  const std::vector<std::string> given = line.Parse(argc, argv);
  if (!given.empty() && IsAboutProgram(given.back())) {
    options.is_version = given.back() == "--version";
    options.is_help = !options.is_version;
    return options;
  }
  if (options.package.empty()) throw UsageError("--package is missing; --help lists the options");
  if (options.is_self_test) {
    for (const std::string& flag : given) {
      if (!kSelfTesting.count(flag)) throw UsageError(flag + ": the self-test has inputs and outputs of its own");
    }
    return options;
  }
  if (options.request.empty()) return options;
  for (const std::string& flag : given) {
    if (kMeasuring.count(flag)) throw UsageError(flag + ": the request says that already");
  }
  if (options.result.empty()) throw UsageError("--request needs --result");
  return options;
}

}  // namespace tvmake
