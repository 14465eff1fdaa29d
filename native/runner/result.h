// What a run gave, as JSON.
#ifndef TVMAKE_RUNNER_RESULT_H_
#define TVMAKE_RUNNER_RESULT_H_

#include <string>

#include "fingerprint.h"
#include "manifest.h"
#include "measure.h"

namespace tvmake {

// A tvmake.device.interface.RunResult.
std::string ResultJson(const Timing& timing, const Fingerprint& fingerprint);

// For people: load, first run, statistics of the samples (percentiles as numpy interpolates them), memory.
std::string SummaryJson(const Manifest& manifest, const Timing& timing, const Fingerprint& fingerprint);

}  // namespace tvmake

#endif  // TVMAKE_RUNNER_RESULT_H_
