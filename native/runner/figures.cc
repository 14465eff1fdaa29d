#include "figures.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include "errors.h"
#include "half.h"

namespace tvmake {
namespace {

constexpr double kDecibelCap = 200;
constexpr double kRelativeFloor = 0.01;  // of the largest |reference|

const std::set<std::string> kGoals = {"rtol",    "atol",   "max_abs", "max_abs_rms",
                                      "max_rel", "cosine", "sqnr_db", "equal"};

template <typename Value>
Value At(const Tensor& tensor, std::size_t index) {
  Value value;
  std::memcpy(&value, tensor.data.data() + index * sizeof value, sizeof value);
  return value;
}

bool IsDiscrete(const std::string& dtype) {
  return dtype == "bool" || dtype.compare(0, 3, "int") == 0 || dtype.compare(0, 4, "uint") == 0;
}

// An integer as sign and size, which float64 cannot hold exactly.
std::pair<bool, uint64_t> Integer(const Tensor& tensor, std::size_t index) {
  const std::string& dtype = tensor.dtype;
  if (dtype == "bool" || dtype == "uint8") return {false, At<uint8_t>(tensor, index)};
  if (dtype == "uint16") return {false, At<uint16_t>(tensor, index)};
  if (dtype == "uint32") return {false, At<uint32_t>(tensor, index)};
  if (dtype == "uint64") return {false, At<uint64_t>(tensor, index)};
  int64_t value = 0;
  if (dtype == "int8") value = At<int8_t>(tensor, index);
  else if (dtype == "int16") value = At<int16_t>(tensor, index);
  else if (dtype == "int32") value = At<int32_t>(tensor, index);
  else if (dtype == "int64") value = At<int64_t>(tensor, index);
  else RefuseInput("self-test", "this program cannot compare values of type " + dtype, "`tvmake run --self-test` can");
  return {value < 0, value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value)};
}

double Real(const Tensor& tensor, std::size_t index) {
  const std::string& dtype = tensor.dtype;
  if (dtype == "float32") return At<float>(tensor, index);
  if (dtype == "float64") return At<double>(tensor, index);
  if (dtype == "float16") return FromHalf(At<uint16_t>(tensor, index));
  if (dtype == "bfloat16") {
    const uint32_t bits = static_cast<uint32_t>(At<uint16_t>(tensor, index)) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  const auto [is_negative, size] = Integer(tensor, index);
  return is_negative ? -static_cast<double>(size) : static_cast<double>(size);
}

double Decibels(double signal, double noise) {
  if (noise <= 0) return kDecibelCap;
  if (signal <= 0 || !std::isfinite(noise)) return -kDecibelCap;
  return std::clamp(10 * (std::log10(signal) - std::log10(noise)), -kDecibelCap, kDecibelCap);
}

double Cosine(double dot, double power_a, double power_b) {
  if (power_a == 0 && power_b == 0) return 1;
  const double norm = std::sqrt(power_a) * std::sqrt(power_b);
  if (norm == 0 || !std::isfinite(norm) || !std::isfinite(dot)) return 0;
  return std::clamp(dot / norm, -1.0, 1.0);
}

double Bound(const Goals& goals, const char* goal) {
  const auto found = goals.find(goal);
  return found == goals.end() ? 0 : found->second;
}

}  // namespace

Figures Compare(const Tensor& reference, const Tensor& got, const Goals& goals) {
  Figures figures;
  figures.is_discrete = IsDiscrete(reference.dtype);
  const bool are_integers = figures.is_discrete && IsDiscrete(got.dtype);
  std::size_t count = 1;
  for (const int64_t extent : reference.shape) count *= static_cast<std::size_t>(extent);
  std::size_t equal = 0;
  std::vector<std::pair<double, double>> finite;  // expected, actual
  double largest = 0;
  for (std::size_t index = 0; index < count; ++index) {
    const double expected = Real(reference, index), actual = Real(got, index);
    const bool is_same = expected == actual || (std::isnan(expected) && std::isnan(actual));
    equal += are_integers ? Integer(reference, index) == Integer(got, index) : is_same;
    if (std::isfinite(expected) && std::isfinite(actual)) {
      finite.emplace_back(expected, actual);
      largest = std::max(largest, std::fabs(expected));
    } else if (!is_same) {
      ++figures.nonfinite_mismatches;
    }
  }
  if (count) figures.equal = static_cast<double>(equal) / static_cast<double>(count);

  const double atol = Bound(goals, "atol"), rtol = Bound(goals, "rtol");
  const bool has_tolerance = goals.count("atol") || goals.count("rtol");
  double power = 0, power_got = 0, dot = 0, noise = 0;
  for (const auto& [expected, actual] : finite) {
    const double error = std::fabs(actual - expected), size = std::fabs(expected);
    const double floor = std::max(size, kRelativeFloor * largest);
    figures.max_abs = std::max(figures.max_abs, error);
    figures.max_rel = std::max(figures.max_rel, floor > 0 ? error / floor : (error > 0 ? 1.0 : 0.0));
    if (has_tolerance && error > atol + rtol * size) ++figures.beyond_tolerance;
    power += expected * expected;
    power_got += actual * actual;
    dot += expected * actual;
    noise += error * error;
  }
  if (finite.empty()) return figures;
  const double rms = std::sqrt(power / static_cast<double>(finite.size()));
  if (figures.max_abs > 0) figures.max_abs_rms = rms > 0 ? figures.max_abs / rms : std::numeric_limits<double>::max();
  figures.cosine = Cosine(dot, power, power_got);
  figures.sqnr_db = Decibels(power, noise);
  return figures;
}

std::vector<std::string> MissedGoals(const Figures& figures, const Goals& goals) {
  for (const auto& [goal, bound] : goals) {
    if (!kGoals.count(goal)) {
      RefuseInput("self-test", "the goal '" + Printable(goal) + "' is not known to this program",
                  "use the runner of the same version of tvmake");
    }
  }
  std::vector<std::string> missed;
  const auto check = [&](const char* goal, double excess) {
    if (goals.count(goal) && excess > 0) missed.push_back(goal);
  };
  if (figures.is_discrete) {
    check("equal", Bound(goals, "equal") - figures.equal);
    return missed;
  }
  if (figures.nonfinite_mismatches) missed.push_back("finite");
  if (figures.beyond_tolerance) missed.push_back("allclose");
  check("max_abs", figures.max_abs - Bound(goals, "max_abs"));
  check("max_abs_rms", figures.max_abs_rms - Bound(goals, "max_abs_rms"));
  check("max_rel", figures.max_rel - Bound(goals, "max_rel"));
  check("cosine", Bound(goals, "cosine") - figures.cosine);
  check("sqnr_db", Bound(goals, "sqnr_db") - figures.sqnr_db);
  return missed;
}

}  // namespace tvmake
