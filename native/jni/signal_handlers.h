// The virtual machine's signal handlers, kept while other code is loaded.
#ifndef TVMAKE_SIGNAL_HANDLERS_H_
#define TVMAKE_SIGNAL_HANDLERS_H_

#include <signal.h>

#include <array>
#include <cstddef>

namespace tvmake {

// Puts the handlers back that were there before. A virtual machine for Java turns faults of compiled code into
// exceptions and pauses; libtvm_ffi.so takes SIGSEGV for itself when it is loaded, and OpenCL drivers do the like.
class SignalHandlersKept {
 public:
  SignalHandlersKept() {
    for (std::size_t index = 0; index < kSignals.size(); ++index) sigaction(kSignals[index], nullptr, &before_[index]);
  }
  ~SignalHandlersKept() {
    for (std::size_t index = 0; index < kSignals.size(); ++index) sigaction(kSignals[index], &before_[index], nullptr);
  }
  SignalHandlersKept(const SignalHandlersKept&) = delete;
  SignalHandlersKept& operator=(const SignalHandlersKept&) = delete;

 private:
  static constexpr std::array<int, 4> kSignals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  std::array<struct sigaction, kSignals.size()> before_;
};

}  // namespace tvmake

#endif  // TVMAKE_SIGNAL_HANDLERS_H_
