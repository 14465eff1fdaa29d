// A stand-in's tensors: their descriptions, the layout of their elements in memory, and reading and writing them.
#pragma once

#include <cstring>
#include <vector>

#include "CL/cl_qcom_ml_ops.h"
#include "half.h"

extern "C" {
// Khronos'.
cl_int clEnqueueReadBuffer(cl_command_queue, cl_mem, cl_bool, size_t, size_t, void*, cl_uint, const cl_event*,
                           cl_event*);
cl_int clEnqueueWriteBuffer(cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void*, cl_uint, const cl_event*,
                            cl_event*);
cl_int clGetMemObjectInfo(cl_mem, cl_uint, size_t, void*, size_t*);
}

struct FakeTensor {
  cl_ml_tensor_desc_qcom is = {};
  cl_ml_tensor_usage_qcom usage = CL_TENSOR_USAGE_INVALID_QCOM;  // invalid: an interface that does not ask
};

namespace fake {

constexpr cl_int kInvalid = -30, kNotSupported = -59, kFormat = -10, kSize = -61;
constexpr cl_uint kMemSize = 0x1102, kExtensions = 0x1030;
constexpr size_t kLanes = 4;

using Values = std::vector<float>;  // in rows: n, c, h, w

inline size_t CountOf(const FakeTensor* t) { return size_t{t->is.n} * t->is.c * t->is.h * t->is.w; }

inline bool Is(const FakeTensor* t, cl_uint n, cl_uint c, cl_uint h, cl_uint w) {
  return t->is.n == n && t->is.c == c && t->is.h == h && t->is.w == w;
}
inline bool IsSame(const FakeTensor* a, const FakeTensor* b) { return Is(a, b->is.n, b->is.c, b->is.h, b->is.w); }
inline bool IsOptimal(const FakeTensor* t) { return t->is.layout == CL_TENSOR_LAYOUT_OPTIMAL_QCOM; }
inline bool IsWeight(const FakeTensor* t) {
  return t->usage == CL_TENSOR_USAGE_INVALID_QCOM || t->usage == CL_TENSOR_USAGE_PARAMETER_QCOM;
}
inline bool IsNothing(const FakeTensor* t) { return t != nullptr && t->is.num_dimensions == CL_TENSOR_UNUSED_QCOM; }

inline size_t ElementBytes(const FakeTensor* t) { return t->is.data_type == CL_FLOAT ? 4 : 2; }

// "Optimal" is n, c / 4, h, w, four channels, as in images; what is beyond the channels is nobody's.
inline size_t Slots(const FakeTensor* t) {
  if (!IsOptimal(t)) return CountOf(t);
  return size_t{t->is.n} * ((t->is.c + kLanes - 1) / kLanes) * t->is.h * t->is.w * kLanes;
}
inline size_t BytesOf(const FakeTensor* t) { return Slots(t) * ElementBytes(t); }

inline size_t SlotOf(const FakeTensor* t, size_t index) {
  if (!IsOptimal(t)) return index;
  const size_t w = index % t->is.w, h = index / t->is.w % t->is.h, c = index / t->is.w / t->is.h % t->is.c;
  const size_t n = index / t->is.w / t->is.h / t->is.c, blocks = (t->is.c + kLanes - 1) / kLanes;
  return (((n * blocks + c / kLanes) * t->is.h + h) * t->is.w + w) * kLanes + c % kLanes;
}

inline float Load(const char* from, bool is_half) {
  if (is_half) {
    uint16_t bits;
    std::memcpy(&bits, from, sizeof(bits));
    return static_cast<float>(tvmake::FromHalf(bits));
  }
  float value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

inline void Store(char* to, bool is_half, float value) {
  if (is_half) {
    const uint16_t bits = tvmake::ToHalf(value);
    std::memcpy(to, &bits, sizeof(bits));
  } else {
    std::memcpy(to, &value, sizeof(value));
  }
}

inline bool IsLargeEnough(const FakeTensor* t, cl_mem memory) {
  size_t bytes = 0;
  return memory != nullptr && clGetMemObjectInfo(memory, kMemSize, sizeof(bytes), &bytes, nullptr) == 0 &&
         bytes >= BytesOf(t);
}

inline cl_int Fetch(cl_command_queue queue, const FakeTensor* t, cl_mem memory, Values* values) {
  if (!IsLargeEnough(t, memory)) return kSize;
  std::vector<char> bytes(BytesOf(t));
  const cl_int code = clEnqueueReadBuffer(queue, memory, 1, 0, bytes.size(), bytes.data(), 0, nullptr, nullptr);
  values->resize(CountOf(t));
  const size_t each = ElementBytes(t);
  for (size_t i = 0; i < values->size(); ++i) (*values)[i] = Load(&bytes[SlotOf(t, i) * each], each == 2);
  return code;
}

inline cl_int Put(cl_command_queue queue, const FakeTensor* t, cl_mem memory, const Values& values, cl_event* event) {
  if (!IsLargeEnough(t, memory)) return kSize;
  const size_t each = ElementBytes(t);
  std::vector<char> bytes(BytesOf(t), '\x7f');  // unused lanes must not be plausible values
  for (size_t i = 0; i < values.size(); ++i) Store(&bytes[SlotOf(t, i) * each], each == 2, values[i]);
  return clEnqueueWriteBuffer(queue, memory, 1, 0, bytes.size(), bytes.data(), 0, nullptr, event);
}

}  // namespace fake
