#include "tvmake/package_c.h"

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "errors.h"
#include "tvmake/package.h"

struct tvmake_package {
  tvmake::Package package;
  std::vector<uint8_t> snapshot;  // the last one
};

namespace {

thread_local std::string last_error;

template <typename Work>
int Guarded(Work work) {
  last_error.clear();
  try {
    work();
    return TVMAKE_OK;
  } catch (const tvmake::Error& error) {
    last_error = error.what();
    return static_cast<int>(error.fault());
  } catch (const std::exception& error) {
    last_error = error.what();
    return TVMAKE_DEVICE_ERROR;
  }
}

void Describe(const std::vector<tvmake::TensorSpec>& specs, size_t index, tvmake_tensor* tensor) {
  if (index >= specs.size()) tvmake::RefuseInput("package", "no tensor number " + std::to_string(index));
  const tvmake::TensorSpec& spec = specs[index];
  *tensor = {spec.name.c_str(), spec.dtype.c_str(), spec.shape.data(), static_cast<int32_t>(spec.shape.size())};
}

}  // namespace

int tvmake_package_load(const char* directory, const char* device, tvmake_package** package) {
  return Guarded([&] { *package = new tvmake_package{tvmake::Package::Load(directory, device ? device : ""), {}}; });
}

void tvmake_package_free(tvmake_package* package) { delete package; }

size_t tvmake_package_inputs(const tvmake_package* package) { return package->package.inputs().size(); }

size_t tvmake_package_outputs(const tvmake_package* package) { return package->package.outputs().size(); }

size_t tvmake_package_states(const tvmake_package* package) { return package->package.states().size(); }

int tvmake_package_input(const tvmake_package* package, size_t index, tvmake_tensor* input) {
  return Guarded([&] { Describe(package->package.inputs(), index, input); });
}

int tvmake_package_output(const tvmake_package* package, size_t index, tvmake_tensor* output) {
  return Guarded([&] { Describe(package->package.outputs(), index, output); });
}

int tvmake_package_state(const tvmake_package* package, size_t index, tvmake_tensor* state) {
  return Guarded([&] { Describe(package->package.states(), index, state); });
}

int tvmake_package_new_session(const tvmake_package* package, tvmake_package** session) {
  return Guarded([&] { *session = new tvmake_package{package->package.NewSession(), {}}; });
}

size_t tvmake_package_functions(const tvmake_package* package) { return package->package.functions().size(); }

int tvmake_package_function_name(const tvmake_package* package, size_t index, const char** name) {
  return Guarded([&] {
    const std::vector<std::string>& functions = package->package.functions();
    if (index >= functions.size()) {
      tvmake::RefuseInput("package", "it has " + std::to_string(functions.size()) + " functions, no number " +
                                         std::to_string(index));
    }
    *name = functions[index].c_str();
  });
}

int tvmake_package_function(const tvmake_package* package, const char* name, tvmake_package** function) {
  return Guarded([&] { *function = new tvmake_package{package->package.Function(name), {}}; });
}

int tvmake_package_set_input(tvmake_package* package, size_t index, const void* data, const int64_t* shape,
                             int32_t rank) {
  return Guarded([&] { package->package.SetInput(index, data, std::vector<int64_t>(shape, shape + rank)); });
}

int tvmake_package_run(tvmake_package* package) {
  return Guarded([&] { package->package.Run(); });
}

int tvmake_package_value(tvmake_package* package, size_t index, tvmake_tensor* output, const void** data,
                         size_t* bytes) {
  return Guarded([&] {
    const tvmake::Tensor& value = package->package.Output(index);
    Describe(package->package.outputs(), index, output);
    output->shape = value.shape.data();
    output->rank = static_cast<int32_t>(value.shape.size());
    *data = value.data.data();
    *bytes = value.data.size();
  });
}

int tvmake_package_reset(tvmake_package* package) {
  return Guarded([&] { package->package.Reset(); });
}

int tvmake_package_snapshot(tvmake_package* package, const void** data, size_t* bytes) {
  return Guarded([&] {
    package->snapshot = package->package.Snapshot();
    *data = package->snapshot.data();
    *bytes = package->snapshot.size();
  });
}

int tvmake_package_restore(tvmake_package* package, const void* data, size_t bytes) {
  return Guarded([&] { package->package.Restore(data, bytes); });
}

const char* tvmake_last_error(void) { return last_error.c_str(); }
