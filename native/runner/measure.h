// Running and timing a package, as tvmake.device.local.worker does it.
#ifndef TVMAKE_RUNNER_MEASURE_H_
#define TVMAKE_RUNNER_MEASURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "inputs.h"
#include "npz.h"
#include "request.h"
#include "virtual_machine.h"

namespace tvmake {

struct OpTime {
  std::string name;
  int64_t run;
  double ms;
};

// The fields of tvmake.device.interface.Timing: times in ms, memory in bytes.
struct Timing {
  double load_ms = 0, first_run_ms = 0;
  std::vector<double> warmup_ms, samples_ms;
  int64_t number = 1;
  std::vector<std::vector<double>> steps_ms;  // by sequence
  std::vector<OpTime> op_runs;
  int64_t peak_memory_bytes = 0, baseline_memory_bytes = 0;
  std::string clml;  // what of the package CLML computed, in words; empty when none of it is for CLML
};

// Milliseconds on a clock that only goes forward.
double NowMs();

// Run the samples that a request asks for, and set the first one's inputs again, with states at their beginning.
//
// outputs: where they go; null for nowhere.
// Returns how long the first run took, to its outputs here, in ms.
double RunSamples(VirtualMachine* machine, const Manifest& manifest, const Request& request, const InputSource& inputs,
                  NpzWriter* outputs);

// Time the inputs set last and the steps of sequences as a request with a measurement asks; fill in warmup_ms, samples_ms, number,
// steps_ms and op_runs.
void Measure(VirtualMachine* machine, const Request& request, const InputSource& inputs, Timing* timing);

}  // namespace tvmake

#endif  // TVMAKE_RUNNER_MEASURE_H_
