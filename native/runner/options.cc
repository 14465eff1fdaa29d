#include "options.h"

#include <cstdlib>

namespace tvmake {

const char kUsage[] =
    R"(usage: tvmake-run --package DIR [options]

Check a package against its digests, load it, run it and time it.

  --package DIR       an unpacked package: mod.so, mod.json, mod.params
  --device KIND       cpu, opencl ...; left out, what the package was compiled for
  --threads N         threads of CPU kernels; left out, one per core
  --load-library SO   something to add to the runtime; may be repeated
  --inputs IN.npz     inputs (input/NAME/00000.npy ...); left out, random ones
  --dim NAME=N        a dynamic dimension of random inputs; may be repeated
  --outputs OUT.npz   where outputs go (output/NAME/00000.npy ...)
  --result RES.json   where the raw figures go

What to do, from a file:
  --request REQ.json  samples, repeat_first, measurement; needs --result

or by these:
  --samples N         inputs to run (1)
  --warmup N          runs before timing (3)
  --runs N            timed samples (20)
  --number N          runs averaged into one sample (1)
  --min-repeat-ms MS  raise the number until a sample takes this long
  --min-duration S    go on taking samples until this much time was measured
  --cooldown S        pause between samples
  --profile           time every kernel as well

Without --request a summary is printed as JSON.
Exit codes: 0 done; 1 the package or an input is wrong; 2 usage; 3 this device lacks something or failed.
)";

namespace {

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
  const std::map<std::string, std::string*> texts = {{"--package", &options.package}, {"--request", &options.request},
                                                     {"--inputs", &options.inputs},   {"--outputs", &options.outputs},
                                                     {"--result", &options.result},   {"--device", &options.device}};
  Measurement& how = options.measurement;
  const std::map<std::string, std::pair<int64_t*, int64_t>> numbers = {{"--threads", {&options.threads, 1}},
                                                                       {"--samples", {&options.samples, 1}},
                                                                       {"--warmup", {&how.warmup, 0}},
                                                                       {"--runs", {&how.repeat, 1}},
                                                                       {"--number", {&how.number, 1}}};
  const std::map<std::string, double*> durations = {{"--min-repeat-ms", &how.min_repeat_ms},
                                                    {"--min-duration", &how.min_duration_s},
                                                    {"--cooldown", &how.cooldown_s}};

  std::string measuring;  // a flag that a request would overrule
  CommandLine line(argc, argv);
  while (line.Next()) {
    const std::string& flag = line.flag();
    if (flag == "--help" || flag == "-h") {
      options.is_help = true;
      return options;
    }
    if (flag == "--version") {
      options.is_version = true;
      return options;
    }
    if (flag == "--profile") {
      how.profile_ops = true;
      measuring = flag;
    } else if (const auto text = texts.find(flag); text != texts.end()) {
      *text->second = line.Value();
    } else if (const auto number = numbers.find(flag); number != numbers.end()) {
      *number->second.first = line.WholeNumber(number->second.second);
      if (flag != "--threads") measuring = flag;
    } else if (const auto duration = durations.find(flag); duration != durations.end()) {
      *duration->second = Duration(flag, line.Value());
      measuring = flag;
    } else if (flag == "--load-library") {
      options.libraries.push_back(line.Value());
    } else if (flag == "--dim") {
      const std::string extent = line.Value();
      const std::size_t sign = extent.find('=');
      if (sign == 0 || sign == std::string::npos) throw UsageError("--dim: expected NAME=N (got '" + extent + "')");
      options.extents[extent.substr(0, sign)] = WholeNumber(flag, extent.substr(sign + 1), 0);
    } else {
      throw UsageError(flag + ": no such option; --help lists them");
    }
  }
  if (options.package.empty()) throw UsageError("--package is missing; --help lists the options");
  if (!options.request.empty() && !measuring.empty()) throw UsageError(measuring + ": the request says that already");
  if (!options.request.empty() && options.result.empty()) throw UsageError("--request needs --result");
  return options;
}

}  // namespace tvmake
