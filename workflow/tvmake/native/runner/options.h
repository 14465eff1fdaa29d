// The command line.
#ifndef TVMAKE_RUNNER_OPTIONS_H_
#define TVMAKE_RUNNER_OPTIONS_H_

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "request.h"

namespace tvmake {

struct Options {
  std::string package, request, inputs, outputs, result;  // paths; empty when not given
  std::string device;                                     // empty: as the package's target says
  int64_t threads = 0;                                    // 0: as many as the runtime likes
  Measurement measurement;                                // without a request
  int64_t samples = 1;                                    // without a request
  std::map<std::string, int64_t> extents;                 // of dynamic dimensions of inputs that are made here
  std::vector<std::string> libraries;
  bool is_help = false, is_version = false;
};

// A command line that makes no sense, in one line.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

extern const char kUsage[];

// Throws UsageError.
Options ParseOptions(int argc, char** argv);

}  // namespace tvmake

#endif  // TVMAKE_RUNNER_OPTIONS_H_
