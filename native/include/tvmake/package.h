// A tvmake package in a C++ program: load it, set its inputs, run it, read its outputs.
//
//   tvmake::Package package = tvmake::Package::Load("digits");
//   package.SetInput("image", pixels.data(), {1, 1, 8, 8});
//   package.Run();
//   tvmake::Tensor scores = package.Output(0);
//
// A package with states keeps them from run to run:
//
//   for (const auto& frame : sound) { package.SetInput("input", frame.data(), {1, 576}); package.Run(); ... }
//   package.Reset();  // the next sound
//
// A package with several functions has one set of weights for them, and states that they share:
//
//   tvmake::Package speech = tvmake::Package::Load("speech");
//   tvmake::Package prefill = speech.Function("prefill"), decode = speech.Function("decode");
//   prefill.SetInput(0, tokens.data(), {1, 12}); prefill.Run();
//   decode.SetInput(0, token.data(), {1, 1}); decode.Run();  // reads the cache that prefill wrote
//
// Link with libtvmake_package.so. It needs libtvm_runtime.so and libtvm_ffi.so beside it.
#ifndef TVMAKE_PACKAGE_H_
#define TVMAKE_PACKAGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#define TVMAKE_API __attribute__((visibility("default")))

namespace tvmake {

// Who can mend an error. The programs exit with these numbers.
enum class Fault {
  kInput = 1,   // the package, or an argument
  kDevice = 3,  // this device: it lacks something, or what it ran failed
};

// "where: what is wrong", and below it what to do about it.
class TVMAKE_API Error : public std::runtime_error {
 public:
  Error(Fault fault, const std::string& text) : std::runtime_error(text), fault_(fault) {}
  Fault fault() const { return fault_; }

 private:
  Fault fault_;
};

constexpr int64_t kDynamic = -1;  // an extent that may differ from run to run

// What a package says of one input, output or state.
struct TensorSpec {
  std::string name;                // as in the source model
  std::string dtype;               // "float32", "int64" ...
  std::vector<int64_t> shape;      // kDynamic where an extent is dynamic
  std::vector<std::string> names;  // of dynamic extents, by axis; empty for fixed ones
  bool has_range = false;          // whether sensible values are in [low, high]
  double low = 0, high = 0;
};

// A value in this process's memory, row by row.
struct Tensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<uint8_t> data;

  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data.data());
  }
};

// A loaded package, a session of one, or a function of either. It can be moved, not copied, and used by one thread at a
// time; sessions of one package may be used by several, and their runs wait for each other.
class TVMAKE_API Package {
 public:
  // Check every file of an unpacked package against its digest, and load it.
  //
  // device: "cpu", "opencl" ...; what the package was compiled for where it is empty.
  // Throws Error.
  static Package Load(const std::string& directory, const std::string& device = "");

  Package(Package&&) noexcept;
  Package& operator=(Package&&) noexcept;
  ~Package();

  const std::vector<TensorSpec>& inputs() const;
  const std::vector<TensorSpec>& outputs() const;
  // Tensors that the package keeps on its device from run to run. They begin as zeros.
  const std::vector<TensorSpec>& states() const;

  // The names of a package's functions, in order; none in a package with one network, and in a function. A package with
  // several functions has no inputs, outputs and states of its own, and does not run.
  const std::vector<std::string>& functions() const;

  // A function, with the states of this session: functions share one of the same name, type and shape. Its code is loaded
  // when it runs first; weights are in memory once. It may outlive this package. Throws Error if there is none of the name.
  Package Function(const std::string& name) const;

  // A session with inputs, outputs and states of its own, on the same code and weights. It may outlive this package.
  Package NewSession() const;

  // Copy an input's value; it stays for the following runs. Throws Error if its shape or type does not fit. float16, bfloat16
  // and other types that C++ lacks are given as unsigned integers of their size.
  template <typename T>
  void SetInput(const std::string& name, const T* data, const std::vector<int64_t>& shape) {
    SetInput(Find(name), data, shape);
  }
  template <typename T>
  void SetInput(std::size_t index, const T* data, const std::vector<int64_t>& shape) {
    static_assert(std::is_arithmetic<T>::value, "elements are numbers; other memory is given as const void*");
    const char* kind = std::is_same<T, bool>::value        ? "bool"
                       : std::is_floating_point<T>::value  ? "float"
                       : std::is_signed<T>::value          ? "int"
                                                           : "uint";
    CheckType(index, kind, sizeof(T));
    SetInput(index, static_cast<const void*>(data), shape);
  }

  // The same with elements of the input's type, unchecked.
  void SetInput(const std::string& name, const void* data, const std::vector<int64_t>& shape);
  void SetInput(std::size_t index, const void* data, const std::vector<int64_t>& shape);

  // Run the network on the inputs set last, and wait for it. The states get their next values, unless it fails.
  // Throws Error.
  void Run();

  // The last run's output, there until the next run. Throws Error if there was none.
  const Tensor& Output(std::size_t index) const;

  // Let the states begin as zeros with the next run: those of the whole session, also if this is a function.
  void Reset();

  // The session's states as bytes, and the states from such bytes, exactly: in any session, process or device. tvmake's
  // Python interface has the same format. Restore throws Error, and changes nothing, if the bytes are truncated, altered, or of
  // another package.
  std::vector<uint8_t> Snapshot() const;
  void Restore(const void* data, std::size_t bytes);
  void Restore(const std::vector<uint8_t>& snapshot) { Restore(snapshot.data(), snapshot.size()); }

 private:
  struct Code;
  struct Session;
  std::size_t Find(const std::string& name) const;
  void CheckType(std::size_t index, const std::string& kind, std::size_t bytes) const;
  explicit Package(std::unique_ptr<Session> session);
  std::unique_ptr<Session> session_;
};

}  // namespace tvmake

#endif  // TVMAKE_PACKAGE_H_
