// Who this device is, and how much memory this process has: tvmake.device.fingerprint without Python.
#ifndef TVMAKE_RUNNER_FINGERPRINT_H_
#define TVMAKE_RUNNER_FINGERPRINT_H_

#include <dlpack/dlpack.h>

#include <cstdint>
#include <map>
#include <string>

namespace tvmake {

// The fields of tvmake.device.interface.Fingerprint.
struct Fingerprint {
  std::string kind, soc, os, runtime;
  int64_t cores = 0, memory_bytes = 0;
  std::map<std::string, std::string> details;
};

// threads: the limit set for CPU kernels; 0 for none.
Fingerprint TakeFingerprint(const std::string& kind, DLDevice device, int64_t threads);

// Of this process, in bytes; 0 where that is not known.
int64_t ResidentMemory();
int64_t PeakMemory();

}  // namespace tvmake

#endif  // TVMAKE_RUNNER_FINGERPRINT_H_
