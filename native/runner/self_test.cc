#include "self_test.h"

#include <algorithm>
#include <cstdio>

#include "errors.h"
#include "inputs.h"
#include "npz.h"
#include "sequence.h"

namespace tvmake {
namespace {

std::string Formatted(const char* form, double value) {
  char text[400];
  std::snprintf(text, sizeof text, form, value);
  return text;
}

std::string BoundOf(const Goals& goals, const char* goal, const char* form, double factor = 1) {
  const auto found = goals.find(goal);
  return found == goals.end() ? "" : " (goal " + Formatted(form, found->second * factor) + ")";
}

std::string Spelled(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + text + "]";
}

}  // namespace

bool HasSelfTest(const Manifest& manifest) {
  return manifest.self_test.samples > 0 && !manifest.self_test.goals.empty();
}

void RequireSelfTest(const Manifest& manifest, const std::string& package) {
  if (HasSelfTest(manifest)) return;
  const std::string why_not = manifest.self_test.samples > 0
                                  ? "it states no bounds, so that whatever a device gives would pass"
                                  : manifest.self_test.why_not;
  RefuseInput(package, "has no self-test" + (why_not.empty() ? "" : ": " + why_not),
              "rebuild it with `export.self_test` in the config, or `tvmake compile --self-test`");
}

std::string SelfTestLine(int64_t sample, const std::string& output, const Figures& figures, const Goals& goals) {
  std::string line = "sample " + std::to_string(sample) + "  " + output + "  ";
  if (figures.is_discrete) {
    line += Formatted("equal %.2f%%", 100 * figures.equal) + BoundOf(goals, "equal", "%.2f%%", 100);
  } else if (figures.nonfinite_mismatches) {  // the other figures leave these out
    line += "elements that are NaN or infinite on one side only: " + std::to_string(figures.nonfinite_mismatches);
  } else {
    line += Formatted("SQNR %.1f dB", figures.sqnr_db) + BoundOf(goals, "sqnr_db", "%g");
    line += Formatted(", largest error %.3g", figures.max_abs);
    line += Formatted(", %.2g of the RMS", figures.max_abs_rms) + BoundOf(goals, "max_abs_rms", "%g");
  }
  std::string missed;
  for (const std::string& goal : MissedGoals(figures, goals)) missed += (missed.empty() ? "" : ", ") + goal;
  if (!missed.empty()) return line + "  WRONG: misses " + missed;
  const bool is_judged = figures.is_discrete ? goals.count("equal") > 0 : goals.size() > goals.count("equal");
  return line + (is_judged ? "  ok" : "  no goal");
}

bool RunSelfTest(VirtualMachine* machine, const Manifest& manifest, const std::string& package) {
  Options options;
  options.inputs = package + "/" + kSelfTest;
  const InputSource inputs = OpenInputs(manifest, options);
  NpzReader archive(options.inputs);
  std::size_t width = 0;
  for (const TensorSpec& spec : manifest.outputs) width = std::max(width, spec.name.size());
  const SelfTest& test = manifest.self_test;
  Sequence sequence(machine);  // of all samples
  int64_t wrong = 0;
  for (int64_t sample = 0; sample < test.samples; ++sample) {
    if (sample > 0) sequence.Advance();
    sequence.SetInputs(inputs(sample));
    const std::vector<Tensor> got = sequence.Run();
    for (std::size_t index = 0; index < got.size(); ++index) {
      const TensorSpec& spec = manifest.outputs[index];
      const Tensor expected = archive.Read(MemberName("output", spec.name, sample), spec.dtype);
      std::string name = spec.name;
      name.resize(width, ' ');
      if (expected.shape != got[index].shape) {
        std::printf("sample %lld  %s  cannot be compared  WRONG: shape %s, the reference has %s\n",
                    static_cast<long long>(sample), name.c_str(), Spelled(got[index].shape).c_str(),
                    Spelled(expected.shape).c_str());
        ++wrong;
        continue;
      }
      const Figures figures = Compare(expected, got[index], test.goals);
      std::printf("%s\n", SelfTestLine(sample, name, figures, test.goals).c_str());
      wrong += !MissedGoals(figures, test.goals).empty();
    }
  }
  const std::string what = std::to_string(test.samples * static_cast<int64_t>(manifest.outputs.size())) +
                           " outputs of " + std::to_string(test.samples) + (test.samples == 1 ? " sample" : " samples");
  if (!wrong) std::printf("self-test passed: %s, against %s\n", what.c_str(), test.reference.c_str());
  std::fflush(stdout);
  if (wrong) {
    std::fprintf(stderr, "error: %s: self-test failed: %lld of %s are wrong\n", package.c_str(),
                 static_cast<long long>(wrong), what.c_str());
  }
  return !wrong;
}

}  // namespace tvmake
