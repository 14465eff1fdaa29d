// What a run does: the fields of tvmake.device.interface.RunRequest and tvmake.config.benchmark.Measurement.
#ifndef TVMAKE_RUNNER_REQUEST_H_
#define TVMAKE_RUNNER_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>

namespace tvmake {

struct Measurement {
  int64_t warmup = 3;
  int64_t number = 1;   // runs averaged into one sample
  int64_t repeat = 20;  // samples, at least
  double min_duration_s = 0;
  double min_repeat_ms = 0;
  double cooldown_s = 0;
  bool profile_ops = false;
};

struct Request {
  int64_t samples = 1;
  int64_t steps = 0;  // samples in a sequence, with each of which states restart; 0: all are one
  bool want_outputs = true;
  bool repeat_first = false;
  int64_t timed_steps = 0;  // with a measurement: samples to time one by one, in sequences; 0: none
  std::optional<Measurement> measurement;
};

// Read a request. Throws Error if it is damaged, or asks for what this program does not know.
Request ReadRequest(const std::string& path);

}  // namespace tvmake

#endif  // TVMAKE_RUNNER_REQUEST_H_
