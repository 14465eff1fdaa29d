// How an output compares with what is expected of it: tvmake.validate.figures of one sample.
#ifndef TVMAKE_RUNNER_FIGURES_H_
#define TVMAKE_RUNNER_FIGURES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tvmake/package.h"

namespace tvmake {

using Goals = std::map<std::string, double>;  // by the keys of validation.goals

// The fields of OutputFigures that goals bound.
struct Figures {
  bool is_discrete = false;  // integers and booleans: equality is what counts
  double equal = 1;          // share of equal elements
  double max_abs = 0, max_abs_rms = 0, max_rel = 0;
  double cosine = 1, sqnr_db = 200;
  int64_t beyond_tolerance = 0;      // elements off by more than atol + rtol * |reference|
  int64_t nonfinite_mismatches = 0;  // elements that are NaN or infinite on one side only
};

// Compare two values of the same shape, whose types may differ. Throws Error for a type that this program cannot read.
Figures Compare(const Tensor& reference, const Tensor& got, const Goals& goals);

// The goals that the figures miss, as tvmake.validate.verdict finds them. Throws Error for a goal that is not known here.
std::vector<std::string> MissedGoals(const Figures& figures, const Goals& goals);

}  // namespace tvmake

#endif  // TVMAKE_RUNNER_FIGURES_H_
