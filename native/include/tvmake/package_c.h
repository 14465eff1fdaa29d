/* A tvmake package for other languages: JNI, Kotlin/Native, ctypes, Rust, Swift.
 *
 * Every function returns TVMAKE_OK or an error, described by tvmake_last_error(). A package is used by one thread at a
 * time, and so is a session; sessions of one package may be used by several, and their runs wait for each other.
 */
#ifndef TVMAKE_PACKAGE_C_H_
#define TVMAKE_PACKAGE_C_H_

#include <stddef.h>
#include <stdint.h>

#define TVMAKE_C_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tvmake_package tvmake_package;

enum {
  TVMAKE_OK = 0,
  TVMAKE_INPUT_ERROR = 1,  /* the package, or an argument */
  TVMAKE_DEVICE_ERROR = 3, /* this device: it lacks something, or what it ran failed */
};

/* An input, an output, a state, or an output's value. What it points to lives as long as the package, for the shape and data of
 * a value until the next tvmake_package_run. */
typedef struct {
  const char* name;     /* as in the source model */
  const char* dtype;    /* "float32", "int64" ... */
  const int64_t* shape; /* -1 where an extent is dynamic */
  int32_t rank;
} tvmake_tensor;

/* Check every file of an unpacked package against its digest, and load it. `device`: "cpu", "opencl" ...; NULL or ""
 * for what the package was compiled for. */
TVMAKE_C_API int tvmake_package_load(const char* directory, const char* device, tvmake_package** package);

/* NULL is fine. */
TVMAKE_C_API void tvmake_package_free(tvmake_package* package);

TVMAKE_C_API size_t tvmake_package_inputs(const tvmake_package* package);
TVMAKE_C_API size_t tvmake_package_outputs(const tvmake_package* package);
TVMAKE_C_API size_t tvmake_package_states(const tvmake_package* package);
TVMAKE_C_API int tvmake_package_input(const tvmake_package* package, size_t index, tvmake_tensor* input);
TVMAKE_C_API int tvmake_package_output(const tvmake_package* package, size_t index, tvmake_tensor* output);
TVMAKE_C_API int tvmake_package_state(const tvmake_package* package, size_t index, tvmake_tensor* state);

/* A session with inputs, outputs and states of its own, on the same code and weights. It is used and freed like the
 * package, which may be freed before. */
TVMAKE_C_API int tvmake_package_new_session(const tvmake_package* package, tvmake_package** session);

/* The names of a package's functions, in order; none in a package with one network. A package with several functions has
 * no inputs, outputs and states of its own, and does not run. A name lives as long as the package. */
TVMAKE_C_API size_t tvmake_package_functions(const tvmake_package* package);
TVMAKE_C_API int tvmake_package_function_name(const tvmake_package* package, size_t index, const char** name);

/* A function, with the states of this session, which functions share if name, type and shape are equal. It is used and
 * freed like the package, which may be freed before. */
TVMAKE_C_API int tvmake_package_function(const tvmake_package* package, const char* name, tvmake_package** function);

/* Copy an input's value, row by row; it stays for the following runs. */
TVMAKE_C_API int tvmake_package_set_input(tvmake_package* package, size_t index, const void* data, const int64_t* shape,
                                          int32_t rank);

/* Run the network on the inputs set last, and wait for it. The states get their next values, unless it fails. */
TVMAKE_C_API int tvmake_package_run(tvmake_package* package);

/* The last run's output: what it is, where it lies, and how many bytes it has. */
TVMAKE_C_API int tvmake_package_value(tvmake_package* package, size_t index, tvmake_tensor* output, const void** data,
                                      size_t* bytes);

/* Let the states of the session begin as zeros with the next run. */
TVMAKE_C_API int tvmake_package_reset(tvmake_package* package);

/* The states of the session as bytes, there until the next snapshot or the package's end; and the states from such bytes, exactly, in
 * any session, process or device. Bytes that are truncated, altered, or of another package are refused, and change
 * nothing. */
TVMAKE_C_API int tvmake_package_snapshot(tvmake_package* package, const void** data, size_t* bytes);
TVMAKE_C_API int tvmake_package_restore(tvmake_package* package, const void* data, size_t bytes);

/* This thread's last error: "where: what is wrong", and perhaps a line on what to do; empty when there was none. */
TVMAKE_C_API const char* tvmake_last_error(void);

#ifdef __cplusplus
}
#endif

#endif /* TVMAKE_PACKAGE_C_H_ */
