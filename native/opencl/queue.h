// A device's one command queue, and the stopwatches that time what goes through it.
#pragma once

#include <chrono>
#include <mutex>
#include <vector>

#include "api.h"
#include "error.h"

namespace tvmake {
namespace opencl {

class Stopwatch;

/// Commands run in the order in which they were submitted, from whichever thread. While a stopwatch is open they go
/// through a second queue that records times, because on some drivers (Adreno) such a queue is slower.
class Queue {
 public:
  Queue(cl_context context, cl_device_id device);

  /// Calls `enqueue(cl_command_queue, cl_event*)` and returns its code; the event pointer may be null.
  template <typename Enqueue>
  cl_int TrySubmit(Enqueue enqueue) {
    std::lock_guard<std::mutex> lock(mutex_);
    cl_event event = nullptr;
    cl_int code = enqueue(active_, running_.empty() ? nullptr : &event);
    if (event != nullptr) Note(event);
    return code;
  }

  /// The same, and throws unless it succeeds. `what` is for the message.
  template <typename Enqueue>
  void Submit(const char* what, Enqueue enqueue) {
    Check(TrySubmit(enqueue), what);
  }

  /// Waits until everything submitted is done. A kernel that failed on the device shows here.
  void Finish();

 private:
  friend class Stopwatch;

  void Note(cl_event event);

  cl_context context_;
  cl_device_id device_;
  std::mutex mutex_;
  cl_command_queue plain_ = nullptr;
  cl_command_queue timing_ = nullptr;
  cl_command_queue active_ = nullptr;
  std::vector<Stopwatch*> running_;
  int open_ = 0;
};

/// The device's time from the start of the first command submitted between Start and Stop to the end of the last one,
/// by the device's own clock. Time before the first command and after the last one is not in it, gaps between are.
/// Where nothing was submitted it is the host's time between the two calls.
class Stopwatch {
 public:
  explicit Stopwatch(Queue* queue) : queue_(queue) {}
  ~Stopwatch();
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  void Start();
  void Stop();
  /// Waits for the device.
  int64_t Nanoseconds();

 private:
  friend class Queue;

  void CloseLocked();

  Queue* queue_;
  bool is_open_ = false;
  cl_event first_ = nullptr;
  cl_event last_ = nullptr;
  std::chrono::steady_clock::time_point began_;
  std::chrono::steady_clock::time_point ended_;
};

}  // namespace opencl
}  // namespace tvmake
