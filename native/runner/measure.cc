#include "measure.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "sequence.h"

namespace tvmake {
namespace {

constexpr int64_t kProfiledRuns = 5, kSequences = 3;

void Collect(NpzWriter* archive, const Manifest& manifest, int64_t sample, const std::vector<Tensor>& values) {
  for (std::size_t index = 0; index < values.size(); ++index) {
    archive->Add(MemberName("output", manifest.outputs[index].name, sample), values[index]);
  }
}

// The mean of some runs.
double TimedMs(VirtualMachine* machine, int64_t number) {
  const double began = NowMs();
  for (int64_t run = 0; run < number; ++run) machine->Start();
  machine->Wait();
  return (NowMs() - began) / static_cast<double>(number);
}

// As in TVM's time_evaluator: raise the count until one sample lasts long enough.
int64_t RunsLasting(VirtualMachine* machine, double min_ms) {
  int64_t number = 1;
  for (;;) {
    const double lasted = TimedMs(machine, number) * static_cast<double>(number);
    if (lasted >= min_ms) return number;
    const double factor = std::min(10.0, 1.2 * min_ms / std::max(lasted, 1e-6));
    number = std::max(number + 1, static_cast<int64_t>(static_cast<double>(number) * factor));
  }
}

std::vector<OpTime> Profile(VirtualMachine* machine) {
  std::vector<OpTime> rows;
  double began = 0;
  int64_t run = 0;
  machine->Watch([&](const std::string& name, bool is_before) {
    if (is_before) {
      began = NowMs();
    } else {
      machine->Wait();
      rows.push_back({name, run, NowMs() - began});
    }
  });
  for (; run < kProfiledRuns; ++run) machine->Start();
  machine->Watch([](const std::string&, bool) {});  // the one above ends with this function
  return rows;
}

// The time of each step from the states' beginning, without copies of inputs and outputs.
std::vector<double> TimeSteps(VirtualMachine* machine, const InputSource& inputs, int64_t steps) {
  std::vector<double> times_ms;
  Sequence sequence(machine);
  for (int64_t step = 0; step < steps; ++step) {
    sequence.SetInputs(inputs(step));
    machine->Wait();
    times_ms.push_back(TimedMs(machine, 1));
    sequence.Advance();
  }
  sequence.Reset();
  sequence.SetInputs(inputs(0));
  return times_ms;
}

}  // namespace

double NowMs() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double RunSamples(VirtualMachine* machine, const Manifest& manifest, const Request& request, const InputSource& inputs,
                  NpzWriter* outputs) {
  const std::vector<Tensor> first = inputs(0);
  Sequence sequence(machine);
  sequence.SetInputs(first);
  const double began = NowMs();
  std::vector<Tensor> values = sequence.Run();
  const double first_run_ms = NowMs() - began;
  for (int64_t sample = 0; sample < request.samples; ++sample) {
    if (sample > 0) {
      if (request.steps > 0 && sample % request.steps == 0) sequence.Reset();
      else sequence.Advance();
      sequence.SetInputs(inputs(sample));
      values = sequence.Run();
    }
    if (outputs) Collect(outputs, manifest, sample, values);
  }
  sequence.Reset();
  sequence.SetInputs(first);
  if (request.repeat_first && outputs) Collect(outputs, manifest, request.samples, sequence.Run());
  return first_run_ms;
}

void Measure(VirtualMachine* machine, const Request& request, const InputSource& inputs, Timing* timing) {
  const Measurement& how = *request.measurement;
  for (int64_t run = 0; run < how.warmup; ++run) timing->warmup_ms.push_back(TimedMs(machine, 1));
  timing->number = how.number;
  if (how.min_repeat_ms > 0) timing->number = std::max(how.number, RunsLasting(machine, how.min_repeat_ms));
  // Only time spent measuring counts, not the pauses between samples.
  double measured_ms = 0;
  while (static_cast<int64_t>(timing->samples_ms.size()) < how.repeat || measured_ms < how.min_duration_s * 1000) {
    if (how.cooldown_s > 0 && !timing->samples_ms.empty()) {
      std::this_thread::sleep_for(std::chrono::duration<double>(how.cooldown_s));
    }
    timing->samples_ms.push_back(TimedMs(machine, timing->number));
    measured_ms += timing->samples_ms.back() * static_cast<double>(timing->number);
  }
  for (int64_t sequence = 0; request.timed_steps > 0 && sequence < kSequences; ++sequence) {
    timing->steps_ms.push_back(TimeSteps(machine, inputs, request.timed_steps));
  }
  if (how.profile_ops) timing->op_runs = Profile(machine);
}

}  // namespace tvmake
