// A stand-in for an Adreno's OpenCL library with Qualcomm's extension cl_qcom_ml_ops, for tests alone.
//
// It is linked with this machine's OpenCL library, whose functions are found through it, and says of every device that
// it has the extension. Layers are computed on the host, in the order in which they are submitted. It is strict where
// a driver would be wrong in silence: types, extents, layouts, sizes of memory, what a tensor was said to be for.
//
//   FAKE_CLML_VERSIONS  the versions of the interface that it has; "1.0 2.0 3.0 4.0"
//   FAKE_CLML_REFUSE    a kind of layer that it does not make ("softmax")
//   FAKE_CLML_LOG       a file that gets the kind of each layer when it is computed, a line each
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <utility>
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

namespace {

constexpr cl_int kInvalid = -30, kNotSupported = -59, kFormat = -10, kSize = -61;
constexpr cl_uint kMemSize = 0x1102, kExtensions = 0x1030;
constexpr size_t kLanes = 4;

using Values = std::vector<float>;  // in rows: n, c, h, w

size_t CountOf(const FakeTensor* t) { return size_t{t->is.n} * t->is.c * t->is.h * t->is.w; }

bool Is(const FakeTensor* t, cl_uint n, cl_uint c, cl_uint h, cl_uint w) {
  return t->is.n == n && t->is.c == c && t->is.h == h && t->is.w == w;
}
bool IsSame(const FakeTensor* a, const FakeTensor* b) { return Is(a, b->is.n, b->is.c, b->is.h, b->is.w); }
bool IsOptimal(const FakeTensor* t) { return t->is.layout == CL_TENSOR_LAYOUT_OPTIMAL_QCOM; }
bool IsWeight(const FakeTensor* t) {
  return t->usage == CL_TENSOR_USAGE_INVALID_QCOM || t->usage == CL_TENSOR_USAGE_PARAMETER_QCOM;
}
bool IsNothing(const FakeTensor* t) { return t != nullptr && t->is.num_dimensions == CL_TENSOR_UNUSED_QCOM; }

size_t ElementBytes(const FakeTensor* t) { return t->is.data_type == CL_FLOAT ? 4 : 2; }

// "Optimal" is n, c / 4, h, w, four channels, as in images; what is beyond the channels is nobody's.
size_t Slots(const FakeTensor* t) {
  if (!IsOptimal(t)) return CountOf(t);
  return size_t{t->is.n} * ((t->is.c + kLanes - 1) / kLanes) * t->is.h * t->is.w * kLanes;
}
size_t BytesOf(const FakeTensor* t) { return Slots(t) * ElementBytes(t); }

size_t SlotOf(const FakeTensor* t, size_t index) {
  if (!IsOptimal(t)) return index;
  const size_t w = index % t->is.w, h = index / t->is.w % t->is.h, c = index / t->is.w / t->is.h % t->is.c;
  const size_t n = index / t->is.w / t->is.h / t->is.c, blocks = (t->is.c + kLanes - 1) / kLanes;
  return (((n * blocks + c / kLanes) * t->is.h + h) * t->is.w + w) * kLanes + c % kLanes;
}

float Load(const char* from, bool is_half) {
  if (is_half) {
    uint16_t bits;
    std::memcpy(&bits, from, sizeof(bits));
    return static_cast<float>(tvmake::FromHalf(bits));
  }
  float value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

void Store(char* to, bool is_half, float value) {
  if (is_half) {
    const uint16_t bits = tvmake::ToHalf(value);
    std::memcpy(to, &bits, sizeof(bits));
  } else {
    std::memcpy(to, &value, sizeof(value));
  }
}

bool IsLargeEnough(const FakeTensor* t, cl_mem memory) {
  size_t bytes = 0;
  return memory != nullptr && clGetMemObjectInfo(memory, kMemSize, sizeof(bytes), &bytes, nullptr) == 0 &&
         bytes >= BytesOf(t);
}

cl_int Fetch(cl_command_queue queue, const FakeTensor* t, cl_mem memory, Values* values) {
  if (!IsLargeEnough(t, memory)) return kSize;
  std::vector<char> bytes(BytesOf(t));
  const cl_int code = clEnqueueReadBuffer(queue, memory, 1, 0, bytes.size(), bytes.data(), 0, nullptr, nullptr);
  values->resize(CountOf(t));
  const size_t each = ElementBytes(t);
  for (size_t i = 0; i < values->size(); ++i) (*values)[i] = Load(&bytes[SlotOf(t, i) * each], each == 2);
  return code;
}

cl_int Put(cl_command_queue queue, const FakeTensor* t, cl_mem memory, const Values& values, cl_event* event) {
  if (!IsLargeEnough(t, memory)) return kSize;
  const size_t each = ElementBytes(t);
  std::vector<char> bytes(BytesOf(t), '\x7f');  // the lanes that are nobody's are no good numbers
  for (size_t i = 0; i < values.size(); ++i) Store(&bytes[SlotOf(t, i) * each], each == 2, values[i]);
  return clEnqueueWriteBuffer(queue, memory, 1, 0, bytes.size(), bytes.data(), 0, nullptr, event);
}

}  // namespace

struct FakeSet {
  std::map<FakeTensor*, cl_mem> memory;
};

struct FakeOp {
  std::string kind;
  std::vector<FakeTensor*> inputs;
  FakeTensor* output = nullptr;
  std::function<Values(const std::vector<Values>&)> compute;
};

namespace {

std::string Setting(const char* name, const char* otherwise) {
  const char* set = std::getenv(name);
  return set == nullptr ? otherwise : set;
}

bool SuitsArithmetic(const std::vector<FakeTensor*>& tensors, cl_arithmetic_mode_qcom mode) {
  const cl_channel_type type = mode == CL_ARITHMETIC_MODE_FP32_QCOM ? CL_FLOAT : CL_HALF_FLOAT;
  return std::all_of(tensors.begin(), tensors.end(), [&](FakeTensor* t) { return t->is.data_type == type; });
}

// Makes an op unless something about it is wrong.
cl_int Make(const char* kind, std::vector<FakeTensor*> inputs, FakeTensor* output, cl_arithmetic_mode_qcom mode,
            bool is_right, std::function<Values(const std::vector<Values>&)> compute, FakeOp** op) {
  if (Setting("FAKE_CLML_REFUSE", "") == kind) return kNotSupported;
  std::vector<FakeTensor*> all = inputs;
  all.push_back(output);
  if (!is_right) return kInvalid;
  if (!SuitsArithmetic(all, mode)) return kFormat;
  *op = new FakeOp{kind, std::move(inputs), output, std::move(compute)};
  return 0;
}

float Activated(const cl_ml_op_activation_desc_qcom* activation, float value) {
  if (activation == nullptr) return value;
  value = std::max(value, 0.0F);
  return activation->function == CL_ACTIVATION_RELU6 ? std::min(value, 6.0F) : value;
}

float EpsilonOf(const cl_ml_op_properties_qcom* properties) {
  float epsilon = std::numeric_limits<float>::quiet_NaN();
  for (; properties != nullptr && properties[0] != CL_ML_OP_PROPERTY_LIST_END_QCOM; properties += 2) {
    if (properties[0] == CL_ML_BATCH_NORM_OP_EPSILON_QCOM) std::memcpy(&epsilon, &properties[1], sizeof(epsilon));
  }
  return epsilon;
}

bool IsWindow(cl_uint in, cl_uint out, cl_uint before, cl_uint after, cl_uint window, cl_uint step) {
  return step > 0 && window > 0 && in + before + after >= window && out == (in + before + after - window) / step + 1;
}

struct Norm {
  const cl_ml_op_batchnorm_desc_qcom* description = nullptr;
  const cl_ml_op_properties_qcom* properties = nullptr;
  FakeTensor *mean = nullptr, *variance = nullptr, *scale = nullptr, *shift = nullptr;

  bool IsFor(cl_uint channels) const {
    const auto fits = [&](FakeTensor* t) { return t && Is(t, 1, channels, 1, 1) && IsOptimal(t) && IsWeight(t); };
    return fits(mean) && fits(variance) && fits(scale) && fits(shift) && !std::isnan(EpsilonOf(properties));
  }
};

float Normalised(float value, const std::vector<Values>& v, size_t first, size_t c, float epsilon) {
  return (value - v[first][c]) / std::sqrt(v[first + 1][c] + epsilon) * v[first + 2][c] + v[first + 3][c];
}

cl_int Convolution(const cl_ml_op_convolution_desc_qcom* given, const Norm& norm,
                   const cl_ml_op_activation_desc_qcom* activated, FakeTensor* in, FakeTensor* weight, FakeTensor* bias,
                   FakeTensor* out, FakeOp** op) {
  const cl_ml_op_convolution_desc_qcom d = *given;
  const bool is_depthwise = d.mode == CL_CONVOLUTION_MODE_DEPTHWISE_QCOM, has_bias = !IsNothing(bias);
  const bool has_norm = norm.description != nullptr;
  const cl_uint c = in->is.c, o = out->is.c, kh = weight->is.h, kw = weight->is.w;
  bool right = d.group_count == 1 && in->is.n == out->is.n && IsOptimal(in) && IsOptimal(weight) && IsOptimal(out);
  right = right && IsWeight(weight) && (!has_bias || (Is(bias, 1, o, 1, 1) && IsWeight(bias) && IsOptimal(bias)));
  right = right &&
          (is_depthwise ? weight->is.n == 1 && weight->is.c == c && o == c : weight->is.n == o && weight->is.c == c);
  right = right && (!has_norm || norm.IsFor(o));
  const cl_uint spans[2] = {(kh - 1) * d.dilation[0] + 1, (kw - 1) * d.dilation[1] + 1};
  right = right && IsWindow(in->is.h, out->is.h, d.input_padding_before[0], d.input_padding_after[0], spans[0],
                            d.filter_stride[0]);
  right = right && IsWindow(in->is.w, out->is.w, d.input_padding_before[1], d.input_padding_after[1], spans[1],
                            d.filter_stride[1]);
  std::vector<FakeTensor*> inputs = {in, weight};
  if (has_bias) inputs.push_back(bias);
  if (has_norm) inputs.insert(inputs.end(), {norm.mean, norm.variance, norm.scale, norm.shift});
  const cl_ml_op_activation_desc_qcom activation = activated ? *activated : cl_ml_op_activation_desc_qcom{};
  const float epsilon = EpsilonOf(norm.properties);
  const cl_ml_tensor_desc_qcom is = in->is, os = out->is;
  const auto compute = [=](const std::vector<Values>& v) {
    Values result(size_t{os.n} * os.c * os.h * os.w);
    size_t at = 0;
    for (size_t n = 0; n < os.n; ++n)
      for (size_t k = 0; k < os.c; ++k)
        for (size_t y = 0; y < os.h; ++y)
          for (size_t x = 0; x < os.w; ++x) {
            float sum = has_bias ? v[2][k] : 0;
            const size_t first = is_depthwise ? k : 0, last = is_depthwise ? k + 1 : is.c;
            for (size_t i = first; i < last; ++i)
              for (size_t a = 0; a < kh; ++a)
                for (size_t b = 0; b < kw; ++b) {
                  const long row = long(y * d.filter_stride[0] + a * d.dilation[0]) - long(d.input_padding_before[0]);
                  const long column =
                      long(x * d.filter_stride[1] + b * d.dilation[1]) - long(d.input_padding_before[1]);
                  if (row < 0 || column < 0 || row >= long(is.h) || column >= long(is.w)) continue;
                  const size_t w = (((is_depthwise ? 0 : k) * is.c + i) * kh + a) * kw + b;
                  sum += v[0][((n * is.c + i) * is.h + row) * is.w + column] * v[1][w];
                }
            if (has_norm) sum = Normalised(sum, v, has_bias ? 3 : 2, k, epsilon);
            result[at++] = Activated(activated ? &activation : nullptr, sum);
          }
    return result;
  };
  return Make(is_depthwise ? "depthwise_conv2d" : "conv2d", inputs, out, d.arithmetic_mode, right, compute, op);
}

#define CONTEXT cl_context, const cl_ml_op_properties_qcom* properties
#define RESULT cl_ml_op_qcom *op, cl_ml_tuningcache_qcom

cl_int Plain(CONTEXT, const cl_ml_op_convolution_desc_qcom* d, FakeTensor* in, FakeTensor* weight, FakeTensor* bias,
             FakeTensor* out, RESULT) {
  return Convolution(d, {nullptr, properties}, nullptr, in, weight, bias, out, op);
}
cl_int WithActivation(CONTEXT, const cl_ml_op_convolution_desc_qcom* d, const cl_ml_op_activation_desc_qcom* a,
                      FakeTensor* in, FakeTensor* weight, FakeTensor* bias, FakeTensor*, FakeTensor* out, RESULT) {
  return Convolution(d, {nullptr, properties}, a, in, weight, bias, out, op);
}
cl_int WithNorm(CONTEXT, const cl_ml_op_convolution_desc_qcom* d, const cl_ml_op_batchnorm_desc_qcom* b, FakeTensor* in,
                FakeTensor* weight, FakeTensor* bias, FakeTensor* out, FakeTensor* mean, FakeTensor* variance,
                FakeTensor* scale, FakeTensor* shift, RESULT) {
  return Convolution(d, {b, properties, mean, variance, scale, shift}, nullptr, in, weight, bias, out, op);
}
cl_int WithBoth(CONTEXT, const cl_ml_op_convolution_desc_qcom* d, const cl_ml_op_batchnorm_desc_qcom* b,
                const cl_ml_op_activation_desc_qcom* a, FakeTensor* in, FakeTensor* weight, FakeTensor* bias,
                FakeTensor* out, FakeTensor*, FakeTensor* mean, FakeTensor* variance, FakeTensor* scale,
                FakeTensor* shift, RESULT) {
  return Convolution(d, {b, properties, mean, variance, scale, shift}, a, in, weight, bias, out, op);
}
cl_int BatchNorm(CONTEXT, const cl_ml_op_batchnorm_desc_qcom* d, FakeTensor* in, FakeTensor* mean, FakeTensor* variance,
                 FakeTensor* scale, FakeTensor* shift, FakeTensor* out, RESULT) {
  const Norm norm = {d, properties, mean, variance, scale, shift};
  const cl_ml_tensor_desc_qcom is = in->is;
  const float epsilon = EpsilonOf(properties);
  return Make(
      "batch_norm", {in, mean, variance, scale, shift}, out, d->arithmetic_mode,
      norm.IsFor(is.c) && IsSame(in, out) && IsOptimal(in) && IsOptimal(out),
      [=](const std::vector<Values>& v) {
        Values result = v[0];
        for (size_t i = 0; i < result.size(); ++i) {
          result[i] = Normalised(result[i], v, 1, i / (size_t{is.h} * is.w) % is.c, epsilon);
        }
        return result;
      },
      op);
}
cl_int Activation(CONTEXT, const cl_ml_op_activation_desc_qcom* d, FakeTensor* in, FakeTensor* unused, FakeTensor* out,
                  RESULT) {
  (void)properties;
  const cl_ml_op_activation_desc_qcom activation = *d;
  return Make(
      activation.function == CL_ACTIVATION_RELU6 ? "relu6" : "relu", {in}, out, d->arithmetic_mode,
      IsNothing(unused) && IsSame(in, out) && IsOptimal(in) && IsOptimal(out),
      [=](const std::vector<Values>& v) {
        Values result = v[0];
        for (float& value : result) value = Activated(&activation, value);
        return result;
      },
      op);
}
cl_int Pooling(CONTEXT, const cl_ml_op_pooling_desc_qcom* given, FakeTensor* in, FakeTensor* unused, FakeTensor* out,
               RESULT) {
  (void)properties;
  const cl_ml_op_pooling_desc_qcom d = *given;
  const bool is_max = d.mode == CL_POOLING_MODE_MAX_QCOM;
  bool right = IsNothing(unused) && in->is.n == out->is.n && in->is.c == out->is.c && IsOptimal(in) && IsOptimal(out);
  const cl_uint from[2] = {in->is.h, in->is.w}, to[2] = {out->is.h, out->is.w};
  for (size_t i = 0; i < 2; ++i) {
    right = right && IsWindow(from[i], to[i], d.input_padding_before[i], d.input_padding_after[i], d.window_size[i],
                              d.stride[i]);
  }
  const cl_ml_tensor_desc_qcom is = in->is, os = out->is;
  const auto compute = [=](const std::vector<Values>& v) {
    Values result;
    for (size_t plane = 0; plane < size_t{os.n} * os.c; ++plane)
      for (size_t y = 0; y < os.h; ++y)
        for (size_t x = 0; x < os.w; ++x) {
          float sum = is_max ? -std::numeric_limits<float>::infinity() : 0;
          size_t count = 0;
          for (size_t a = 0; a < d.window_size[0]; ++a)
            for (size_t b = 0; b < d.window_size[1]; ++b) {
              const long row = long(y * d.stride[0] + a) - long(d.input_padding_before[0]);
              const long column = long(x * d.stride[1] + b) - long(d.input_padding_before[1]);
              if (row < 0 || column < 0 || row >= long(is.h) || column >= long(is.w)) continue;
              const float value = v[0][(plane * is.h + row) * is.w + column];
              sum = is_max ? std::max(sum, value) : sum + value;
              ++count;
            }
          result.push_back(is_max ? sum : sum / static_cast<float>(count));
        }
    return result;
  };
  return Make(is_max ? "max_pool2d" : "avg_pool2d", {in}, out, d.arithmetic_mode, right, compute, op);
}
cl_int Softmax(CONTEXT, const cl_ml_op_softmax_desc_qcom* d, FakeTensor* in, FakeTensor* out, RESULT) {
  (void)properties;
  const cl_ml_tensor_desc_qcom is = in->is;
  const auto compute = [=](const std::vector<Values>& v) {
    Values result = v[0];
    const size_t plane = size_t{is.h} * is.w;
    for (size_t n = 0; n < is.n; ++n)
      for (size_t p = 0; p < plane; ++p) {
        float* first = &result[n * is.c * plane + p];
        float most = first[0], sum = 0;
        for (size_t c = 0; c < is.c; ++c) most = std::max(most, first[c * plane]);
        for (size_t c = 0; c < is.c; ++c) sum += first[c * plane] = std::exp(first[c * plane] - most);
        for (size_t c = 0; c < is.c; ++c) first[c * plane] /= sum;
      }
    return result;
  };
  return Make("softmax", {in}, out, d->arithmetic_mode, IsSame(in, out) && IsOptimal(in) && IsOptimal(out), compute,
              op);
}
cl_int Reshape(CONTEXT, FakeTensor* in, FakeTensor* out, RESULT) {
  (void)properties;
  const auto mode = in->is.data_type == CL_FLOAT ? CL_ARITHMETIC_MODE_FP32_QCOM : CL_ARITHMETIC_MODE_FP16_QCOM;
  return Make(
      "reshape", {in}, out, mode, CountOf(in) == CountOf(out) && IsOptimal(in) && IsOptimal(out),
      [](const std::vector<Values>& v) { return v[0]; }, op);
}
Values Multiplied(const Values& a, const Values& b, size_t m, size_t n, size_t k) {
  Values result(m * n);
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j)
      for (size_t l = 0; l < k; ++l) result[i * n + j] += a[i * k + l] * b[l * n + j];
  return result;
}
cl_int FullyConnected(CONTEXT, const cl_ml_op_fully_connected_desc_qcom* d, FakeTensor* in, FakeTensor* weight,
                      FakeTensor* bias, FakeTensor* out, RESULT) {
  (void)properties;
  const cl_uint k = in->is.c, n = out->is.c;
  const bool right = d->first_flatten_axis == 1 && d->weight_transform == CL_FC_WEIGHT_TRANSFORM_NONE_QCOM &&
                     Is(in, 1, k, 1, 1) && Is(weight, 1, 1, k, n) && Is(bias, 1, n, 1, 1) && Is(out, 1, n, 1, 1) &&
                     IsOptimal(in) && IsOptimal(weight) && IsOptimal(bias) && IsOptimal(out) && IsWeight(weight) &&
                     IsWeight(bias);
  return Make(
      "fully_connected", {in, weight, bias}, out, d->arithmetic_mode, right,
      [=](const std::vector<Values>& v) {
        Values result = Multiplied(v[0], v[1], 1, n, k);
        for (size_t i = 0; i < n; ++i) result[i] += v[2][i];
        return result;
      },
      op);
}
cl_int Product(CONTEXT, const cl_ml_op_gemm_desc_qcom* d, FakeTensor* a, FakeTensor* b, FakeTensor* out, RESULT) {
  (void)properties;
  const cl_uint m = d->m, n = d->n, k = d->k;
  const bool right = d->trans_a == CL_GEMM_TRANSFORM_NONE_QCOM && d->trans_b == CL_GEMM_TRANSFORM_NONE_QCOM &&
                     d->alpha.u.fp32 == 1 && d->beta.u.fp32 == 0 && Is(a, m, k, 1, 1) && Is(b, 1, 1, k, n) &&
                     Is(out, m, n, 1, 1) && !IsOptimal(a) && !IsOptimal(b) && !IsOptimal(out);
  return Make(
      "gemm", {a, b}, out, d->arithmetic_mode, right,
      [=](const std::vector<Values>& v) { return Multiplied(v[0], v[1], m, n, k); }, op);
}
cl_int Binary(CONTEXT, const cl_ml_op_binary_desc_qcom* d, FakeTensor* a, FakeTensor* b, FakeTensor* out, RESULT) {
  (void)properties;
  const cl_binary_op_qcom kind = d->binary_op;
  const auto compute = [=](const std::vector<Values>& v) {
    Values result = v[0];
    for (size_t i = 0; i < result.size(); ++i) {
      const float x = v[0][i], y = v[1][i];
      switch (kind) {
        case CL_TENSOR_OP_ADD_QCOM: result[i] = x + y; break;
        case CL_TENSOR_OP_SUB_QCOM: result[i] = x - y; break;
        case CL_TENSOR_OP_MUL_QCOM: result[i] = x * y; break;
        case CL_TENSOR_OP_DIV_QCOM: result[i] = x / y; break;
        case CL_TENSOR_OP_MAX_QCOM: result[i] = std::max(x, y); break;
        case CL_TENSOR_OP_MIN_QCOM: result[i] = std::min(x, y); break;
      }
    }
    return result;
  };
  const bool right = IsSame(a, b) && IsSame(a, out) && IsOptimal(a) && IsOptimal(b) && IsOptimal(out) &&
                     d->alpha.u.fp32 == 1 && d->beta.u.fp32 == 1 && d->gamma.u.fp32 == 0;
  return Make("binary", {a, b}, out, d->arithmetic_mode, right, compute, op);
}
cl_int Clip(CONTEXT, const cl_ml_op_clip_desc_qcom* d, FakeTensor* in, FakeTensor* out, RESULT) {
  (void)properties;
  const float most = d->clip_value_max.u.fp32, least = d->clip_value_min.u.fp32;
  return Make(
      "clip", {in}, out, d->arithmetic_mode,
      d->clip_mode == CL_CLIP_BY_VALUE_QCOM && IsSame(in, out) && IsOptimal(in) && IsOptimal(out),
      [=](const std::vector<Values>& v) {
        Values result = v[0];
        for (float& value : result) value = std::min(std::max(value, least), most);
        return result;
      },
      op);
}
cl_int Concat(CONTEXT, const cl_ml_op_concat_desc_qcom* d, FakeTensor** given, FakeTensor* out, RESULT) {
  (void)properties;
  std::vector<FakeTensor*> inputs(given, given + d->num_input_tensors);
  const cl_uint axis = d->axis;
  const auto extents = [](const FakeTensor* t) { return std::vector<size_t>{t->is.n, t->is.c, t->is.h, t->is.w}; };
  bool right = axis < 4 && IsOptimal(out);
  size_t together = 0;
  std::vector<size_t> rows;  // what an input has from the axis on
  for (const FakeTensor* t : inputs) {
    auto have = extents(t), want = extents(out);
    if (!right) break;
    together += have[axis];
    size_t row = 1;
    for (size_t i = axis; i < 4; ++i) row *= have[i];
    rows.push_back(row);
    have[axis] = want[axis] = 0;
    right = have == want && IsOptimal(t);
  }
  right = right && together == extents(out)[axis];
  size_t before = 1;
  for (size_t i = 0; right && i < axis; ++i) before *= extents(out)[i];
  return Make(
      "concat", inputs, out, d->arithmetic_mode, right,
      [=](const std::vector<Values>& v) {
        Values result;
        for (size_t i = 0; i < before; ++i)
          for (size_t t = 0; t < v.size(); ++t) {
            result.insert(result.end(), v[t].begin() + long(i * rows[t]), v[t].begin() + long((i + 1) * rows[t]));
          }
        return result;
      },
      op);
}
cl_int Pad(CONTEXT, const cl_ml_op_pad_desc_qcom* d, FakeTensor* in, FakeTensor* out, RESULT) {
  (void)properties;
  const cl_uint top = d->paddings[0], left = d->paddings[2];
  const bool right = d->pad_mode == CL_PAD_MODE_CONSTANT_QCOM && IsOptimal(in) && IsOptimal(out) &&
                     Is(out, in->is.n, in->is.c, in->is.h + top + d->paddings[1], in->is.w + left + d->paddings[3]);
  const cl_ml_tensor_desc_qcom is = in->is, os = out->is;
  return Make(
      "pad", {in}, out, d->arithmetic_mode, right,
      [=](const std::vector<Values>& v) {
        Values result(size_t{os.n} * os.c * os.h * os.w);
        for (size_t plane = 0; plane < size_t{is.n} * is.c; ++plane)
          for (size_t y = 0; y < is.h; ++y)
            for (size_t x = 0; x < is.w; ++x) {
              result[(plane * os.h + y + top) * os.w + x + left] = v[0][(plane * is.h + y) * is.w + x];
            }
        return result;
      },
      op);
}

cl_int MakeTensor(const cl_ml_tensor_desc_qcom* description, cl_ml_tensor_usage_qcom usage, FakeTensor** tensor) {
  const bool is_nothing = description->num_dimensions == CL_TENSOR_UNUSED_QCOM;
  const bool is_number = description->data_type == CL_FLOAT || description->data_type == CL_HALF_FLOAT;
  if (!is_nothing && (!is_number || description->num_dimensions != CL_TENSOR_DIMENSIONS_4D_QCOM)) return kFormat;
  if (usage == CL_TENSOR_USAGE_UNUSED_QCOM && !is_nothing) return kInvalid;
  *tensor = new FakeTensor{*description, usage};
  return is_nothing || CountOf(*tensor) > 0 ? 0 : kInvalid;
}
cl_int Tensor(cl_context, const cl_ml_tensor_properties_qcom*, const cl_ml_tensor_desc_qcom* d, FakeTensor** tensor) {
  return MakeTensor(d, CL_TENSOR_USAGE_INVALID_QCOM, tensor);
}
cl_int TensorWithUsage(cl_context, const cl_ml_tensor_properties_qcom*, const cl_ml_tensor_desc_qcom* d,
                       cl_ml_tensor_usage_qcom usage, FakeTensor** tensor) {
  return usage == CL_TENSOR_USAGE_INVALID_QCOM ? kInvalid : MakeTensor(d, usage, tensor);
}
cl_int Release(FakeTensor* tensor) {
  delete tensor;
  return 0;
}
cl_int Bytes(cl_context, FakeTensor* tensor, cl_uint* bytes) {
  *bytes = static_cast<cl_uint>(BytesOf(tensor));
  return 0;
}
cl_int Write(cl_command_queue queue, const void* data, cl_ml_tensor_layout_qcom layout, FakeTensor* tensor,
             cl_mem memory, cl_uint, const cl_event*, cl_event* event) {
  if (layout != CL_TENSOR_LAYOUT_NCHW_QCOM) return kInvalid;
  const size_t each = ElementBytes(tensor);
  Values values(CountOf(tensor));
  for (size_t i = 0; i < values.size(); ++i) values[i] = Load(static_cast<const char*>(data) + i * each, each == 2);
  return Put(queue, tensor, memory, values, event);
}
cl_int Copy(cl_command_queue queue, FakeTensor* from, cl_mem source, FakeTensor* to, cl_mem destination, cl_uint,
            const cl_event*, cl_event* event) {
  if (!IsSame(from, to) || from->is.data_type != to->is.data_type) return kInvalid;
  Values values;
  const cl_int code = Fetch(queue, from, source, &values);
  return code != 0 ? code : Put(queue, to, destination, values, event);
}
cl_int MakeSet(FakeSet** set) {
  *set = new FakeSet();
  return 0;
}
cl_int UpdateSet(FakeSet* set, cl_uint count, const cl_ml_tensor_memory_desc_qcom* tensors) {
  for (cl_uint i = 0; i < count; ++i) {
    if (!IsLargeEnough(tensors[i].tensor, tensors[i].memory)) return kSize;
    set->memory[tensors[i].tensor] = tensors[i].memory;
  }
  return 0;
}
cl_int ReleaseSet(FakeSet* set) {
  delete set;
  return 0;
}
cl_int Enqueue(cl_command_queue queue, FakeOp* op, FakeSet* set, cl_uint, const cl_event*, cl_event* event) {
  std::vector<Values> values;
  for (FakeTensor* tensor : op->inputs) {
    if (set->memory.count(tensor) == 0) return kInvalid;
    values.emplace_back();
    const cl_int code = Fetch(queue, tensor, set->memory[tensor], &values.back());
    if (code != 0) return code;
  }
  if (set->memory.count(op->output) == 0) return kInvalid;
  const std::string log = Setting("FAKE_CLML_LOG", "");
  if (!log.empty()) std::ofstream(log, std::ios::app) << op->kind << "\n";
  return Put(queue, op->output, set->memory[op->output], op->compute(values), event);
}
cl_int ReleaseOp(FakeOp* op) {
  delete op;
  return 0;
}

template <typename Table>
void FillShared(Table* table) {
  table->clReleaseMLTensorQCOM = Release;
  table->clGetMLTensorMemorySizeQCOM = Bytes;
  table->clEnqueueWriteMLTensorDataQCOM = Write;
  table->clEnqueueCopyMLTensorDataQCOM = Copy;
  table->clCreateMLTensorMemoryDescriptorSetQCOM = MakeSet;
  table->clUpdateMLTensorMemoryDescriptorSetQCOM = UpdateSet;
  table->clReleaseMLTensorMemoryDescriptorSetQCOM = ReleaseSet;
  table->clEnqueueMLOpQCOM = Enqueue;
  table->clReleaseMLOpQCOM = ReleaseOp;
  table->clCreateMLOpConvolutionForwardQCOM = Plain;
  table->clCreateMLOpFusedConvolutionActivationForwardQCOM = WithActivation;
  table->clCreateMLOpFusedConvolutionBatchNormForwardQCOM = WithNorm;
  table->clCreateMLOpFusedConvolutionBatchNormActivationForwardQCOM = WithBoth;
  table->clCreateMLOpBatchNormForwardQCOM = BatchNorm;
  table->clCreateMLOpActivationForwardQCOM = Activation;
  table->clCreateMLOpPoolingForwardQCOM = Pooling;
  table->clCreateMLOpSoftmaxQCOM = Softmax;
  table->clCreateMLOpReshapeQCOM = Reshape;
  table->clCreateMLOpFullyConnectedQCOM = FullyConnected;
  table->clCreateMLOpGemmQCOM = Product;
  table->clCreateMLOpBinaryQCOM = Binary;
  table->clCreateMLOpConcatQCOM = Concat;
  table->clCreateMLOpPadQCOM = Pad;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) cl_int clQueryMLInterfaceVersionsQCOM(cl_int* majors, cl_int* minors,
                                                                             cl_uint count, cl_uint* found) {
  std::istringstream versions(Setting("FAKE_CLML_VERSIONS", "1.0 2.0 3.0 4.0"));
  cl_uint index = 0;
  for (std::string version; versions >> version; ++index) {
    if (index >= count) continue;
    majors[index] = std::atoi(version.c_str());
    minors[index] = std::atoi(version.substr(version.find('.') + 1).c_str());
  }
  if (found != nullptr) *found = index;
  return 0;
}

#define TABLE(major, extra)                                                                                          \
  __attribute__((visibility("default"))) CLMLInterfaceV##major##QCOM* clGetMLInterfaceV##major##QCOM(cl_int minor) { \
    static CLMLInterfaceV##major##QCOM table;                                                                        \
    FillShared(&table);                                                                                              \
    extra;                                                                                                           \
    return minor == 0 ? &table : nullptr;                                                                            \
  }

TABLE(1, table.clCreateMLTensorQCOM = Tensor)
TABLE(2, table.clCreateMLTensorQCOM = Tensor; table.clCreateMLOpClipQCOM = Clip)
TABLE(3, table.clCreateMLTensorQCOM = Tensor; table.clCreateMLOpClipQCOM = Clip)
TABLE(4, table.clCreateMLTensorWithUsageQCOM = TensorWithUsage; table.clCreateMLOpClipQCOM = Clip)

// This machine's, with one more extension.
__attribute__((visibility("default"))) cl_int clGetDeviceInfo(void* device, cl_uint what, size_t size, void* value,
                                                              size_t* needed) {
  static const auto theirs = reinterpret_cast<cl_int (*)(void*, cl_uint, size_t, void*, size_t*)>(
      dlsym(dlopen("libOpenCL.so.1", RTLD_NOW), "clGetDeviceInfo"));
  if (what != kExtensions) return theirs(device, what, size, value, needed);
  size_t bytes = 0;
  cl_int code = theirs(device, what, 0, nullptr, &bytes);
  std::vector<char> names(bytes + 1);
  if (code == 0) code = theirs(device, what, bytes, names.data(), nullptr);
  const std::string text = std::string(names.data()) + " cl_qcom_ml_ops";
  if (needed != nullptr) *needed = text.size() + 1;
  if (value != nullptr) std::memcpy(value, text.c_str(), std::min(size, text.size() + 1));
  return code;
}

}  // extern "C"
