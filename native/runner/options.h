// The command line.
#ifndef TVMAKE_RUNNER_OPTIONS_H_
#define TVMAKE_RUNNER_OPTIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "command_line.h"
#include "request.h"

namespace tvmake {

struct Options {
  std::string package, request, inputs, outputs, result;  // paths; empty when not given
  std::string function;                                   // of a package with several
  std::string device;                                     // empty: the package's target
  int64_t threads = 0;                                    // 0: as many as the runtime likes
  Measurement measurement;                                // without a request
  int64_t samples = 1, steps = 0;                         // without a request
  std::map<std::string, int64_t> extents;                 // of dynamic dimensions of random inputs
  std::vector<std::string> libraries;
  bool is_self_test = false, is_help = false, is_version = false;
};

extern const char kUsage[];

// Throws UsageError.
Options ParseOptions(int argc, char** argv);

}  // namespace tvmake

#endif  // TVMAKE_RUNNER_OPTIONS_H_
