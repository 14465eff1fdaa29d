#include "queue.h"

#include <algorithm>

namespace tvmake {
namespace opencl {
namespace {

cl_command_queue Create(cl_context context, cl_device_id device, cl_bitfield properties) {
  cl_int code = CL_SUCCESS;
  // OpenCL 2.0 deprecates this call for one with a list of properties; 1.2 drivers have only this one.
  cl_command_queue queue = GetApi().clCreateCommandQueue(context, device, properties, &code);
  Check(code, "cannot create a command queue");
  return queue;
}

cl_ulong Moment(cl_event event, cl_info which) {
  cl_ulong nanoseconds = 0;
  Check(GetApi().clGetEventProfilingInfo(event, which, sizeof(nanoseconds), &nanoseconds, nullptr),
        "cannot read when a command ran");
  return nanoseconds;
}

}  // namespace

Queue::Queue(cl_context context, cl_device_id device)
    : context_(context), device_(device), plain_(Create(context, device, 0)), active_(plain_) {}

void Queue::Finish() {
  std::lock_guard<std::mutex> lock(mutex_);
  Check(GetApi().clFinish(active_), "the device failed while it worked on what was submitted");
}

void Queue::Note(cl_event event) {
  const Api& api = GetApi();
  for (Stopwatch* watch : running_) {
    if (watch->first_ == nullptr) {
      api.clRetainEvent(event);
      watch->first_ = event;
    }
    if (watch->last_ != nullptr) api.clReleaseEvent(watch->last_);
    api.clRetainEvent(event);
    watch->last_ = event;
  }
  api.clReleaseEvent(event);
}

Stopwatch::~Stopwatch() {
  if (!is_open_ || IsForked()) return;
  std::lock_guard<std::mutex> lock(queue_->mutex_);
  CloseLocked();
}

void Stopwatch::Start() {
  std::lock_guard<std::mutex> lock(queue_->mutex_);
  if (queue_->open_ == 0) {
    if (queue_->timing_ == nullptr) {
      queue_->timing_ = Create(queue_->context_, queue_->device_, CL_QUEUE_PROFILING_ENABLE);
    }
    Check(GetApi().clFinish(queue_->plain_), "the device failed while it worked on what was submitted");
    queue_->active_ = queue_->timing_;
  }
  ++queue_->open_;
  is_open_ = true;
  queue_->running_.push_back(this);
  began_ = std::chrono::steady_clock::now();
}

void Stopwatch::Stop() {
  std::lock_guard<std::mutex> lock(queue_->mutex_);
  ended_ = std::chrono::steady_clock::now();
  auto& running = queue_->running_;
  running.erase(std::remove(running.begin(), running.end(), this), running.end());
}

int64_t Stopwatch::Nanoseconds() {
  std::lock_guard<std::mutex> lock(queue_->mutex_);
  int64_t elapsed = std::chrono::duration_cast<std::chrono::nanoseconds>(ended_ - began_).count();
  if (first_ != nullptr) {
    Check(GetApi().clFinish(queue_->active_), "the device failed while it was timed");
    const cl_ulong start = Moment(first_, CL_PROFILING_COMMAND_START);
    elapsed = static_cast<int64_t>(Moment(last_, CL_PROFILING_COMMAND_END) - start);
  }
  CloseLocked();
  return elapsed;
}

void Stopwatch::CloseLocked() {
  if (!is_open_) return;
  is_open_ = false;
  auto& running = queue_->running_;
  running.erase(std::remove(running.begin(), running.end(), this), running.end());
  if (first_ != nullptr) {
    GetApi().clReleaseEvent(first_);
    GetApi().clReleaseEvent(last_);
    first_ = last_ = nullptr;
  }
  if (--queue_->open_ == 0) {
    // Later commands go through the other queue and must not overtake these. An error shows at the next Finish.
    GetApi().clFinish(queue_->timing_);
    queue_->active_ = queue_->plain_;
  }
}

}  // namespace opencl
}  // namespace tvmake
