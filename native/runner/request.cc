#include "request.h"

#include <tvm/ffi/container/map.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/json.h>

#include <stdexcept>

#include "canonical_json.h"
#include "errors.h"
#include "file_digest.h"

namespace tvmake {
namespace {

namespace json = tvm::ffi::json;
using tvm::ffi::Any;

constexpr char kRemedy[] = "use the runner of the same version of tvmake";

// Read a member into a field; false if it has another name.
template <typename Field>
bool Take(const std::string& name, const Any& value, const char* expected, Field* field) {
  if (name != expected) return false;
  *field = value.cast<Field>();
  return true;
}

Measurement ReadMeasurement(const json::Object& fields, const std::string& path) {
  Measurement measurement;
  for (const auto& [key, value] : fields) {
    const std::string name = key.cast<tvm::ffi::String>();
    const bool is_known = Take(name, value, "warmup", &measurement.warmup) ||
                          Take(name, value, "number", &measurement.number) ||
                          Take(name, value, "repeat", &measurement.repeat) ||
                          Take(name, value, "min_duration_s", &measurement.min_duration_s) ||
                          Take(name, value, "min_repeat_ms", &measurement.min_repeat_ms) ||
                          Take(name, value, "cooldown_s", &measurement.cooldown_s) ||
                          Take(name, value, "profile_ops", &measurement.profile_ops) ||
                          // How results are judged, elsewhere.
                          name == "percentile" || name == "noise_cv";
    if (!is_known) RefuseInput(path, "measurement." + Printable(name) + " is not known to this program", kRemedy);
  }
  if (measurement.warmup < 0 || measurement.number < 1 || measurement.repeat < 1 || measurement.min_duration_s < 0 ||
      measurement.min_repeat_ms < 0 || measurement.cooldown_s < 0) {
    RefuseInput(path, "a number in measurement is too small");
  }
  return measurement;
}

}  // namespace

Request ReadRequest(const std::string& path) {
  Request request;
  request.samples = 0;
  try {
    const std::string text = ReadFile(path);
    CanonicalJsonWithout(text, "");  // refuses what is too deep for TVM's parser
    for (const auto& [key, value] : json::Parse(text).cast<json::Object>()) {
      const std::string name = key.cast<tvm::ffi::String>();
      if (name == "measurement") {
        if (value != nullptr) request.measurement = ReadMeasurement(value.cast<json::Object>(), path);
      } else if (!Take(name, value, "samples", &request.samples) &&
                 !Take(name, value, "steps", &request.steps) && !Take(name, value, "want_outputs", &request.want_outputs) &&
                 !Take(name, value, "repeat_first", &request.repeat_first) &&
                 !Take(name, value, "timed_steps", &request.timed_steps)) {
        RefuseInput(path, Printable(name) + " is not known to this program", kRemedy);
      }
    }
  } catch (const tvm::ffi::Error& error) {
    RefuseInput(path, "is not a request (" + Cause(error.message()) + ")");
  } catch (const std::invalid_argument& error) {
    RefuseInput(path, std::string("is not a request (") + error.what() + ")");
  }
  if (request.samples < 1) RefuseInput(path, "is not a request (samples must be 1 or more)");
  if (request.steps < 0) RefuseInput(path, "is not a request (steps must be 0 or more)");
  if (request.timed_steps < 0) RefuseInput(path, "is not a request (timed_steps must be 0 or more)");
  return request;
}

}  // namespace tvmake
