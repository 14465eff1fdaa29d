// A fake driver's layers: each is checked when it is created, and computed on the host when it is enqueued.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tensors.h"

struct FakeOp {
  std::string kind;
  std::vector<FakeTensor*> inputs;
  FakeTensor* output = nullptr;
  std::function<fake::Values(const std::vector<fake::Values>&)> compute;
};

namespace fake {

inline std::string Setting(const char* name, const char* otherwise) {
  const char* set = std::getenv(name);
  return set == nullptr ? otherwise : set;
}

inline bool SuitsArithmetic(const std::vector<FakeTensor*>& tensors, cl_arithmetic_mode_qcom mode) {
  const cl_channel_type type = mode == CL_ARITHMETIC_MODE_FP32_QCOM ? CL_FLOAT : CL_HALF_FLOAT;
  return std::all_of(tensors.begin(), tensors.end(), [&](FakeTensor* t) { return t->is.data_type == type; });
}

// Makes an op unless something about it is wrong.
inline cl_int Make(const char* kind, std::vector<FakeTensor*> inputs, FakeTensor* output, cl_arithmetic_mode_qcom mode,
                   bool is_right, std::function<Values(const std::vector<Values>&)> compute, FakeOp** op) {
  if (Setting("FAKE_CLML_REFUSE", "") == kind) return kNotSupported;
  std::vector<FakeTensor*> all = inputs;
  all.push_back(output);
  if (!is_right) return kInvalid;
  if (!SuitsArithmetic(all, mode)) return kFormat;
  *op = new FakeOp{kind, std::move(inputs), output, std::move(compute)};
  return 0;
}

inline float Activated(const cl_ml_op_activation_desc_qcom* activation, float value) {
  if (activation == nullptr) return value;
  value = std::max(value, 0.0F);
  return activation->function == CL_ACTIVATION_RELU6 ? std::min(value, 6.0F) : value;
}

inline float EpsilonOf(const cl_ml_op_properties_qcom* properties) {
  float epsilon = std::numeric_limits<float>::quiet_NaN();
  for (; properties != nullptr && properties[0] != CL_ML_OP_PROPERTY_LIST_END_QCOM; properties += 2) {
    if (properties[0] == CL_ML_BATCH_NORM_OP_EPSILON_QCOM) std::memcpy(&epsilon, &properties[1], sizeof(epsilon));
  }
  return epsilon;
}

inline bool IsKernelWindow(cl_uint in, cl_uint out, cl_uint before, cl_uint after, cl_uint window, cl_uint step) {
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

inline float Normalised(float value, const std::vector<Values>& v, size_t first, size_t c, float epsilon) {
  return (value - v[first][c]) / std::sqrt(v[first + 1][c] + epsilon) * v[first + 2][c] + v[first + 3][c];
}

inline cl_int Convolution(const cl_ml_op_convolution_desc_qcom* given, const Norm& norm,
                          const cl_ml_op_activation_desc_qcom* activated, FakeTensor* in, FakeTensor* weight,
                          FakeTensor* bias, FakeTensor* out, FakeOp** op) {
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
  right = right && IsKernelWindow(in->is.h, out->is.h, d.input_padding_before[0], d.input_padding_after[0], spans[0],
                            d.filter_stride[0]);
  right = right && IsKernelWindow(in->is.w, out->is.w, d.input_padding_before[1], d.input_padding_after[1], spans[1],
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

inline cl_int Plain(CONTEXT, const cl_ml_op_convolution_desc_qcom* d, FakeTensor* in, FakeTensor* weight,
                    FakeTensor* bias, FakeTensor* out, RESULT) {
  return Convolution(d, {nullptr, properties}, nullptr, in, weight, bias, out, op);
}
inline cl_int WithActivation(CONTEXT, const cl_ml_op_convolution_desc_qcom* d, const cl_ml_op_activation_desc_qcom* a,
                             FakeTensor* in, FakeTensor* weight, FakeTensor* bias, FakeTensor*, FakeTensor* out,
                             RESULT) {
  return Convolution(d, {nullptr, properties}, a, in, weight, bias, out, op);
}
inline cl_int WithNorm(CONTEXT, const cl_ml_op_convolution_desc_qcom* d, const cl_ml_op_batchnorm_desc_qcom* b,
                       FakeTensor* in, FakeTensor* weight, FakeTensor* bias, FakeTensor* out, FakeTensor* mean,
                       FakeTensor* variance, FakeTensor* scale, FakeTensor* shift, RESULT) {
  return Convolution(d, {b, properties, mean, variance, scale, shift}, nullptr, in, weight, bias, out, op);
}
inline cl_int WithBoth(CONTEXT, const cl_ml_op_convolution_desc_qcom* d, const cl_ml_op_batchnorm_desc_qcom* b,
                       const cl_ml_op_activation_desc_qcom* a, FakeTensor* in, FakeTensor* weight, FakeTensor* bias,
                       FakeTensor* out, FakeTensor*, FakeTensor* mean, FakeTensor* variance, FakeTensor* scale,
                       FakeTensor* shift, RESULT) {
  return Convolution(d, {b, properties, mean, variance, scale, shift}, a, in, weight, bias, out, op);
}
inline cl_int BatchNorm(CONTEXT, const cl_ml_op_batchnorm_desc_qcom* d, FakeTensor* in, FakeTensor* mean,
                        FakeTensor* variance, FakeTensor* scale, FakeTensor* shift, FakeTensor* out, RESULT) {
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
inline cl_int Activation(CONTEXT, const cl_ml_op_activation_desc_qcom* d, FakeTensor* in, FakeTensor* unused,
                         FakeTensor* out, RESULT) {
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
inline cl_int Pooling(CONTEXT, const cl_ml_op_pooling_desc_qcom* given, FakeTensor* in, FakeTensor* unused,
                      FakeTensor* out, RESULT) {
  (void)properties;
  const cl_ml_op_pooling_desc_qcom d = *given;
  const bool is_max = d.mode == CL_POOLING_MODE_MAX_QCOM;
  bool right = IsNothing(unused) && in->is.n == out->is.n && in->is.c == out->is.c && IsOptimal(in) && IsOptimal(out);
  const cl_uint from[2] = {in->is.h, in->is.w}, to[2] = {out->is.h, out->is.w};
  for (size_t i = 0; i < 2; ++i) {
    right = right && IsKernelWindow(from[i], to[i], d.input_padding_before[i], d.input_padding_after[i], d.window_size[i],
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
inline cl_int Softmax(CONTEXT, const cl_ml_op_softmax_desc_qcom* d, FakeTensor* in, FakeTensor* out, RESULT) {
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
inline cl_int Reshape(CONTEXT, FakeTensor* in, FakeTensor* out, RESULT) {
  (void)properties;
  const auto mode = in->is.data_type == CL_FLOAT ? CL_ARITHMETIC_MODE_FP32_QCOM : CL_ARITHMETIC_MODE_FP16_QCOM;
  return Make(
      "reshape", {in}, out, mode, CountOf(in) == CountOf(out) && IsOptimal(in) && IsOptimal(out),
      [](const std::vector<Values>& v) { return v[0]; }, op);
}
inline Values Multiplied(const Values& a, const Values& b, size_t m, size_t n, size_t k) {
  Values result(m * n);
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j)
      for (size_t l = 0; l < k; ++l) result[i * n + j] += a[i * k + l] * b[l * n + j];
  return result;
}
inline cl_int FullyConnected(CONTEXT, const cl_ml_op_fully_connected_desc_qcom* d, FakeTensor* in, FakeTensor* weight,
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
inline cl_int Product(CONTEXT, const cl_ml_op_gemm_desc_qcom* d, FakeTensor* a, FakeTensor* b, FakeTensor* out,
                      RESULT) {
  (void)properties;
  const cl_uint m = d->m, n = d->n, k = d->k;
  const bool right = d->trans_a == CL_GEMM_TRANSFORM_NONE_QCOM && d->trans_b == CL_GEMM_TRANSFORM_NONE_QCOM &&
                     d->alpha.u.fp32 == 1 && d->beta.u.fp32 == 0 && Is(a, m, k, 1, 1) && Is(b, 1, 1, k, n) &&
                     Is(out, m, n, 1, 1) && !IsOptimal(a) && !IsOptimal(b) && !IsOptimal(out);
  return Make(
      "gemm", {a, b}, out, d->arithmetic_mode, right,
      [=](const std::vector<Values>& v) { return Multiplied(v[0], v[1], m, n, k); }, op);
}
inline cl_int Binary(CONTEXT, const cl_ml_op_binary_desc_qcom* d, FakeTensor* a, FakeTensor* b, FakeTensor* out,
                     RESULT) {
  (void)properties;
  const cl_binary_op_qcom kind = d->binary_op;
  const auto compute = [=](const std::vector<Values>& v) {
    Values result = v[0];
    for (size_t i = 0; i < result.size(); ++i) {
      const float x = v[0][i], y = v[1][i];
      switch (kind) {
        case CL_TENSOR_OP_ADD_QCOM:
          result[i] = x + y;
          break;
        case CL_TENSOR_OP_SUB_QCOM:
          result[i] = x - y;
          break;
        case CL_TENSOR_OP_MUL_QCOM:
          result[i] = x * y;
          break;
        case CL_TENSOR_OP_DIV_QCOM:
          result[i] = x / y;
          break;
        case CL_TENSOR_OP_MAX_QCOM:
          result[i] = std::max(x, y);
          break;
        case CL_TENSOR_OP_MIN_QCOM:
          result[i] = std::min(x, y);
          break;
      }
    }
    return result;
  };
  const bool right = IsSame(a, b) && IsSame(a, out) && IsOptimal(a) && IsOptimal(b) && IsOptimal(out) &&
                     d->alpha.u.fp32 == 1 && d->beta.u.fp32 == 1 && d->gamma.u.fp32 == 0;
  return Make("binary", {a, b}, out, d->arithmetic_mode, right, compute, op);
}
inline cl_int Clip(CONTEXT, const cl_ml_op_clip_desc_qcom* d, FakeTensor* in, FakeTensor* out, RESULT) {
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
inline cl_int Concat(CONTEXT, const cl_ml_op_concat_desc_qcom* d, FakeTensor** given, FakeTensor* out, RESULT) {
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
inline cl_int Pad(CONTEXT, const cl_ml_op_pad_desc_qcom* d, FakeTensor* in, FakeTensor* out, RESULT) {
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

// The order of TVM's nn.depth_to_space: the position in a block precedes the channel.
inline cl_int DepthToSpace(CONTEXT, const cl_ml_op_depthtospace_desc_qcom* d, FakeTensor* in, FakeTensor* out, RESULT) {
  (void)properties;
  const size_t side = d->block_size;
  const cl_ml_tensor_desc_qcom is = in->is, os = out->is;
  const bool right = side > 0 && is.c == os.c * side * side && IsOptimal(in) && IsOptimal(out) &&
                     Is(out, is.n, os.c, is.h * d->block_size, is.w * d->block_size);
  return Make(
      "depth_to_space", {in}, out, d->arithmetic_mode, right,
      [=](const std::vector<Values>& v) {
        Values result(v[0].size());
        size_t at = 0;
        for (size_t n = 0; n < is.n; ++n)
          for (size_t c = 0; c < is.c; ++c)
            for (size_t y = 0; y < is.h; ++y)
              for (size_t x = 0; x < is.w; ++x) {
                const size_t position = c / os.c, row = y * side + position / side, column = x * side + position % side;
                result[((n * os.c + c % os.c) * os.h + row) * os.w + column] = v[0][at++];
              }
        return result;
      },
      op);
}
inline cl_int Resize(CONTEXT, const cl_ml_op_resize_bilinear_desc_qcom* d, FakeTensor* in, FakeTensor* out, RESULT) {
  (void)properties;
  const bool keeps_corners = d->align_corners != 0;
  const cl_ml_tensor_desc_qcom is = in->is, os = out->is;
  const bool right = !d->unused && IsOptimal(in) && IsOptimal(out) && is.n == os.n && is.c == os.c;
  const auto step = [=](cl_uint from, cl_uint to) {
    if (!keeps_corners) return static_cast<float>(from) / static_cast<float>(to);
    return to > 1 ? static_cast<float>(from - 1) / static_cast<float>(to - 1) : 0.0F;
  };
  const float down = step(is.h, os.h), across = step(is.w, os.w);
  return Make(
      "resize_bilinear", {in}, out, d->arithmetic_mode, right,
      [=](const std::vector<Values>& v) {
        Values result;
        for (size_t plane = 0; plane < size_t{os.n} * os.c; ++plane)
          for (size_t y = 0; y < os.h; ++y)
            for (size_t x = 0; x < os.w; ++x) {
              const float row = static_cast<float>(y) * down, column = static_cast<float>(x) * across;
              const size_t top = std::min<size_t>(size_t(row), is.h - 1), bottom = std::min<size_t>(top + 1, is.h - 1);
              const size_t left = std::min<size_t>(size_t(column), is.w - 1);
              const size_t next = std::min<size_t>(left + 1, is.w - 1);
              const auto at = [&](size_t r, size_t c) { return v[0][(plane * is.h + r) * is.w + c]; };
              const float a = row - static_cast<float>(top), b = column - static_cast<float>(left);
              result.push_back((1 - a) * ((1 - b) * at(top, left) + b * at(top, next)) +
                               a * ((1 - b) * at(bottom, left) + b * at(bottom, next)));
            }
        return result;
      },
      op);
}

#undef CONTEXT
#undef RESULT

}  // namespace fake
