#include "result.h"

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/extra/json.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tvmake {
namespace {

namespace json = tvm::ffi::json;
using tvm::ffi::String;

json::Array Numbers(const std::vector<double>& values) {
  json::Array array;
  for (const double value : values) array.push_back(value);
  return array;
}

double Percentile(const std::vector<double>& sorted, double percent) {
  const double at = percent / 100 * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (at - static_cast<double>(below));
}

double StandardDeviation(const std::vector<double>& values, double mean) {
  if (values.size() < 2) return 0;
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

}  // namespace

std::string ResultJson(const Timing& timing, const Fingerprint& fingerprint) {
  json::Array ops;
  for (const OpTime& op : timing.op_runs) {
    json::Object row;
    row.Set(String("name"), String(op.name));
    row.Set(String("run"), op.run);
    row.Set(String("ms"), op.ms);
    ops.push_back(row);
  }
  json::Array sequences;
  for (const std::vector<double>& steps_ms : timing.steps_ms) sequences.push_back(Numbers(steps_ms));
  json::Object conditions;
  conditions.Set(String("program"), String("tvmake-run"));
  if (!timing.clml.empty()) conditions.Set(String("clml"), String(timing.clml));
  json::Object timed;
  timed.Set(String("load_ms"), timing.load_ms);
  timed.Set(String("first_run_ms"), timing.first_run_ms);
  timed.Set(String("warmup_ms"), Numbers(timing.warmup_ms));
  timed.Set(String("samples_ms"), Numbers(timing.samples_ms));
  timed.Set(String("number"), timing.number);
  timed.Set(String("steps_ms"), sequences);
  timed.Set(String("op_runs"), ops);
  timed.Set(String("peak_memory_bytes"), timing.peak_memory_bytes);
  timed.Set(String("baseline_memory_bytes"), timing.baseline_memory_bytes);
  timed.Set(String("conditions"), conditions);

  json::Object details;
  for (const auto& [name, value] : fingerprint.details) details.Set(String(name), String(value));
  json::Object device;
  device.Set(String("kind"), String(fingerprint.kind));
  device.Set(String("soc"), String(fingerprint.soc));
  device.Set(String("cores"), fingerprint.cores);
  device.Set(String("memory_bytes"), fingerprint.memory_bytes);
  device.Set(String("os"), String(fingerprint.os));
  device.Set(String("runtime"), String(fingerprint.runtime));
  device.Set(String("details"), details);

  json::Object result;
  result.Set(String("timing"), timed);
  result.Set(String("fingerprint"), device);
  return std::string(json::Stringify(result)) + "\n";
}

std::string SummaryJson(const Manifest& manifest, const Timing& timing, const Fingerprint& fingerprint) {
  std::vector<double> sorted = timing.samples_ms;
  std::sort(sorted.begin(), sorted.end());
  const double mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / static_cast<double>(sorted.size());
  json::Object summary;
  summary.Set(String("model"), String(manifest.model));
  summary.Set(String("precision"), String(manifest.precision));
  summary.Set(String("target"), String(manifest.target_name));
  summary.Set(String("device"), String(fingerprint.kind));
  summary.Set(String("soc"), String(fingerprint.soc));
  summary.Set(String("threads"), String(fingerprint.details.at("threads")));
  if (!timing.clml.empty()) summary.Set(String("clml"), String(timing.clml));
  summary.Set(String("load_ms"), timing.load_ms);
  summary.Set(String("first_run_ms"), timing.first_run_ms);
  summary.Set(String("samples"), static_cast<int64_t>(sorted.size()));
  summary.Set(String("number"), timing.number);
  summary.Set(String("mean_ms"), mean);
  summary.Set(String("std_ms"), StandardDeviation(sorted, mean));
  summary.Set(String("min_ms"), sorted.front());
  summary.Set(String("p50_ms"), Percentile(sorted, 50));
  summary.Set(String("p90_ms"), Percentile(sorted, 90));
  summary.Set(String("p99_ms"), Percentile(sorted, 99));
  summary.Set(String("max_ms"), sorted.back());
  summary.Set(String("peak_memory_bytes"), timing.peak_memory_bytes);
  summary.Set(String("baseline_memory_bytes"), timing.baseline_memory_bytes);
  return std::string(json::Stringify(summary, 1)) + "\n";
}

}  // namespace tvmake
