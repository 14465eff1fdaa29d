// A stand-in for the header of Qualcomm's OpenCL ML SDK, for tests alone.
//
// It declares what native/clml uses, so that the same source compiles with either; TVM's runtime for CLML shows these
// names, and the order of members where it fills structures. Numbers, the order of the tables and everything that a
// compiler does not check are this stand-in's own: a program that was compiled with it can use the stand-in's library
// and no other.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define CL_QCOM_ML_OPS_H_MAJOR_VERSION 4
#define CL_QCOM_ML_OPS_H_MINOR_VERSION 0

#define CL_HALF_FLOAT 0x10DD
#define CL_FLOAT 0x10DE

extern "C" {

typedef int32_t cl_int;
typedef uint32_t cl_uint;
typedef uint64_t cl_ulong;
typedef cl_uint cl_bool;
typedef cl_ulong cl_bitfield;
typedef float cl_float;
typedef uint16_t cl_half;
typedef cl_uint cl_channel_type;
typedef struct _cl_context* cl_context;
typedef struct _cl_command_queue* cl_command_queue;
typedef struct _cl_mem* cl_mem;
typedef struct _cl_event* cl_event;

typedef struct FakeTensor* cl_ml_tensor_qcom;
typedef struct FakeOp* cl_ml_op_qcom;
typedef struct FakeCache* cl_ml_tuningcache_qcom;
typedef struct FakeSet* cl_ml_tensor_mem_desc_set_qcom;
typedef intptr_t cl_ml_op_properties_qcom;
typedef intptr_t cl_ml_tensor_properties_qcom;

enum { CL_ML_OP_PROPERTY_LIST_END_QCOM = 0, CL_ML_BATCH_NORM_OP_EPSILON_QCOM = 71 };

#define FAKE_ENUM(name, ...) typedef enum { __VA_ARGS__ } name
FAKE_ENUM(cl_ml_tensor_layout_qcom, CL_TENSOR_LAYOUT_NHWC_QCOM = 31, CL_TENSOR_LAYOUT_NCHW_QCOM,
          CL_TENSOR_LAYOUT_OPTIMAL_QCOM);
FAKE_ENUM(cl_ml_tensor_dimensions_qcom, CL_TENSOR_UNUSED_QCOM = 41, CL_TENSOR_DIMENSIONS_4D_QCOM);
FAKE_ENUM(cl_ml_tensor_usage_qcom, CL_TENSOR_USAGE_INVALID_QCOM = 51, CL_TENSOR_USAGE_CNN_QCOM,
          CL_TENSOR_USAGE_PARAMETER_QCOM, CL_TENSOR_USAGE_UNUSED_QCOM);
FAKE_ENUM(cl_arithmetic_mode_qcom, CL_ARITHMETIC_MODE_FP32_QCOM = 61, CL_ARITHMETIC_MODE_FP16_QCOM,
          CL_ARITHMETIC_MODE_FP16_ACC32_QCOM);
FAKE_ENUM(cl_convolution_mode_qcom, CL_CONVOLUTION_MODE_DEPTHWISE_QCOM = 81, CL_CONVOLUTION_MODE_CONVOLUTION_QCOM);
FAKE_ENUM(cl_activation_function_qcom, CL_ACTIVATION_RELU6 = 91, CL_ACTIVATION_RELU);
FAKE_ENUM(cl_nan_mode_qcom, CL_PROPAGATE_NAN_QCOM = 101);
FAKE_ENUM(cl_batchnorm_mode_qcom, CL_BATCHNORM_MODE_SPATIAL_QCOM = 111);
FAKE_ENUM(cl_pooling_mode_qcom, CL_POOLING_MODE_AVERAGE_EXCLUDE_PADDING_QCOM = 121, CL_POOLING_MODE_MAX_QCOM);
FAKE_ENUM(cl_softmax_algorithm_qcom, CL_SOFTMAX_ALGORITHM_ACCURATE_QCOM = 131);
FAKE_ENUM(cl_softmax_mode_qcom, CL_SOFTMAX_MODE_SPATIAL_QCOM = 141);
FAKE_ENUM(cl_fc_weight_transform_qcom, CL_FC_WEIGHT_TRANSFORM_TRANSPOSE_QCOM = 151, CL_FC_WEIGHT_TRANSFORM_NONE_QCOM);
FAKE_ENUM(cl_gemm_transform_qcom, CL_GEMM_TRANSFORM_TRANSPOSE_QCOM = 161, CL_GEMM_TRANSFORM_NONE_QCOM);
FAKE_ENUM(cl_binary_op_qcom, CL_TENSOR_OP_DIV_QCOM = 171, CL_TENSOR_OP_MAX_QCOM, CL_TENSOR_OP_MIN_QCOM,
          CL_TENSOR_OP_MUL_QCOM, CL_TENSOR_OP_SUB_QCOM, CL_TENSOR_OP_ADD_QCOM);
FAKE_ENUM(cl_clip_mode_qcom, CL_CLIP_BY_VALUE_QCOM = 181);
FAKE_ENUM(cl_pad_mode_qcom, CL_PAD_MODE_CONSTANT_QCOM = 191);
#undef FAKE_ENUM

enum { CL_ML_TENSOR_MAX_DIMS_QCOM = 5, CL_ML_TENSOR_MAX_SPATIAL_DIMS_QCOM = 3 };

typedef struct {
  cl_channel_type data_type;
  cl_ml_tensor_layout_qcom layout;
  cl_uint n, c, h, w, d;
  cl_ml_tensor_dimensions_qcom num_dimensions;
  cl_int stride[CL_ML_TENSOR_MAX_DIMS_QCOM];
} cl_ml_tensor_desc_qcom;

typedef struct {
  union {
    cl_float fp32;
    cl_half fp16;
  } u;
  cl_channel_type type;
} cl_ml_value_qcom;

typedef struct {
  cl_convolution_mode_qcom mode;
  cl_uint group_count, num_dimensions;
  cl_uint input_padding_before[CL_ML_TENSOR_MAX_SPATIAL_DIMS_QCOM];
  cl_uint input_padding_after[CL_ML_TENSOR_MAX_SPATIAL_DIMS_QCOM];
  cl_uint filter_stride[CL_ML_TENSOR_MAX_SPATIAL_DIMS_QCOM];
  cl_uint dilation[CL_ML_TENSOR_MAX_SPATIAL_DIMS_QCOM];
  cl_bitfield flags;
  cl_arithmetic_mode_qcom arithmetic_mode;
} cl_ml_op_convolution_desc_qcom;

typedef struct {
  cl_activation_function_qcom function;
  cl_nan_mode_qcom nan_propagation;
  cl_arithmetic_mode_qcom arithmetic_mode;
} cl_ml_op_activation_desc_qcom;

typedef struct {
  cl_batchnorm_mode_qcom mode;
  cl_arithmetic_mode_qcom arithmetic_mode;
} cl_ml_op_batchnorm_desc_qcom;

typedef struct {
  cl_pooling_mode_qcom mode;
  cl_uint num_dimensions;
  cl_uint input_padding_before[CL_ML_TENSOR_MAX_SPATIAL_DIMS_QCOM];
  cl_uint input_padding_after[CL_ML_TENSOR_MAX_SPATIAL_DIMS_QCOM];
  cl_uint stride[CL_ML_TENSOR_MAX_SPATIAL_DIMS_QCOM];
  cl_uint window_size[CL_ML_TENSOR_MAX_SPATIAL_DIMS_QCOM];
  cl_nan_mode_qcom nan_propagation;
  cl_arithmetic_mode_qcom arithmetic_mode;
} cl_ml_op_pooling_desc_qcom;

typedef struct {
  cl_softmax_algorithm_qcom algo;
  cl_softmax_mode_qcom mode;
  cl_arithmetic_mode_qcom arithmetic_mode;
} cl_ml_op_softmax_desc_qcom;

typedef struct {
  cl_uint first_flatten_axis;
  cl_fc_weight_transform_qcom weight_transform;
  cl_arithmetic_mode_qcom arithmetic_mode;
} cl_ml_op_fully_connected_desc_qcom;

typedef struct {
  cl_uint m, n, k;
  cl_gemm_transform_qcom trans_a, trans_b;
  cl_ml_value_qcom alpha, beta;
  cl_arithmetic_mode_qcom arithmetic_mode;
} cl_ml_op_gemm_desc_qcom;

typedef struct {
  cl_binary_op_qcom binary_op;
  cl_ml_value_qcom alpha, beta, gamma;
  cl_arithmetic_mode_qcom arithmetic_mode;
} cl_ml_op_binary_desc_qcom;

typedef struct {
  cl_clip_mode_qcom clip_mode;
  cl_ml_value_qcom clip_value_max, clip_value_min;
  cl_arithmetic_mode_qcom arithmetic_mode;
} cl_ml_op_clip_desc_qcom;

typedef struct {
  cl_uint axis, num_input_tensors;
  cl_arithmetic_mode_qcom arithmetic_mode;
} cl_ml_op_concat_desc_qcom;

typedef struct {
  cl_pad_mode_qcom pad_mode;
  cl_uint paddings_shape[2];
  cl_uint paddings[8];
  cl_arithmetic_mode_qcom arithmetic_mode;
} cl_ml_op_pad_desc_qcom;

typedef struct {
  cl_uint block_size;
  cl_arithmetic_mode_qcom arithmetic_mode;
} cl_ml_op_depthtospace_desc_qcom;

typedef struct {
  cl_bool align_corners;
  cl_bool unused;  // TVM's runtime gives it as false
  cl_arithmetic_mode_qcom arithmetic_mode;
} cl_ml_op_resize_bilinear_desc_qcom;

typedef struct {
  cl_ml_tensor_qcom tensor;
  cl_mem memory;
} cl_ml_tensor_memory_desc_qcom;

// Abbreviations of this file.
#define FAKE_CONTEXT cl_context, const cl_ml_op_properties_qcom*
#define FAKE_RESULT cl_ml_op_qcom*, cl_ml_tuningcache_qcom
#define FAKE_T cl_ml_tensor_qcom

#define FAKE_SHARED_FUNCTIONS(F)                                                                                       \
  F(clReleaseMLTensorQCOM, (FAKE_T))                                                                                   \
  F(clGetMLTensorMemorySizeQCOM, (cl_context, FAKE_T, cl_uint*))                                                       \
  F(clEnqueueWriteMLTensorDataQCOM,                                                                                    \
    (cl_command_queue, const void*, cl_ml_tensor_layout_qcom, FAKE_T, cl_mem, cl_uint, const cl_event*, cl_event*))    \
  F(clEnqueueCopyMLTensorDataQCOM,                                                                                     \
    (cl_command_queue, FAKE_T, cl_mem, FAKE_T, cl_mem, cl_uint, const cl_event*, cl_event*))                           \
  F(clCreateMLTensorMemoryDescriptorSetQCOM, (cl_ml_tensor_mem_desc_set_qcom*))                                        \
  F(clUpdateMLTensorMemoryDescriptorSetQCOM,                                                                           \
    (cl_ml_tensor_mem_desc_set_qcom, cl_uint, const cl_ml_tensor_memory_desc_qcom*))                                   \
  F(clReleaseMLTensorMemoryDescriptorSetQCOM, (cl_ml_tensor_mem_desc_set_qcom))                                        \
  F(clEnqueueMLOpQCOM,                                                                                                 \
    (cl_command_queue, cl_ml_op_qcom, cl_ml_tensor_mem_desc_set_qcom, cl_uint, const cl_event*, cl_event*))            \
  F(clReleaseMLOpQCOM, (cl_ml_op_qcom))                                                                                \
  F(clCreateMLOpConvolutionForwardQCOM,                                                                                \
    (FAKE_CONTEXT, const cl_ml_op_convolution_desc_qcom*, FAKE_T, FAKE_T, FAKE_T, FAKE_T, FAKE_RESULT))                \
  F(clCreateMLOpFusedConvolutionActivationForwardQCOM,                                                                 \
    (FAKE_CONTEXT, const cl_ml_op_convolution_desc_qcom*, const cl_ml_op_activation_desc_qcom*, FAKE_T, FAKE_T,        \
     FAKE_T, FAKE_T, FAKE_T, FAKE_RESULT))                                                                             \
  F(clCreateMLOpFusedConvolutionBatchNormForwardQCOM,                                                                  \
    (FAKE_CONTEXT, const cl_ml_op_convolution_desc_qcom*, const cl_ml_op_batchnorm_desc_qcom*, FAKE_T, FAKE_T, FAKE_T, \
     FAKE_T, FAKE_T, FAKE_T, FAKE_T, FAKE_T, FAKE_RESULT))                                                             \
  F(clCreateMLOpFusedConvolutionBatchNormActivationForwardQCOM,                                                        \
    (FAKE_CONTEXT, const cl_ml_op_convolution_desc_qcom*, const cl_ml_op_batchnorm_desc_qcom*,                         \
     const cl_ml_op_activation_desc_qcom*, FAKE_T, FAKE_T, FAKE_T, FAKE_T, FAKE_T, FAKE_T, FAKE_T, FAKE_T, FAKE_T,     \
     FAKE_RESULT))                                                                                                     \
  F(clCreateMLOpBatchNormForwardQCOM,                                                                                  \
    (FAKE_CONTEXT, const cl_ml_op_batchnorm_desc_qcom*, FAKE_T, FAKE_T, FAKE_T, FAKE_T, FAKE_T, FAKE_T, FAKE_RESULT))  \
  F(clCreateMLOpActivationForwardQCOM,                                                                                 \
    (FAKE_CONTEXT, const cl_ml_op_activation_desc_qcom*, FAKE_T, FAKE_T, FAKE_T, FAKE_RESULT))                         \
  F(clCreateMLOpPoolingForwardQCOM,                                                                                    \
    (FAKE_CONTEXT, const cl_ml_op_pooling_desc_qcom*, FAKE_T, FAKE_T, FAKE_T, FAKE_RESULT))                            \
  F(clCreateMLOpSoftmaxQCOM, (FAKE_CONTEXT, const cl_ml_op_softmax_desc_qcom*, FAKE_T, FAKE_T, FAKE_RESULT))           \
  F(clCreateMLOpReshapeQCOM, (FAKE_CONTEXT, FAKE_T, FAKE_T, FAKE_RESULT))                                              \
  F(clCreateMLOpFullyConnectedQCOM,                                                                                    \
    (FAKE_CONTEXT, const cl_ml_op_fully_connected_desc_qcom*, FAKE_T, FAKE_T, FAKE_T, FAKE_T, FAKE_RESULT))            \
  F(clCreateMLOpGemmQCOM, (FAKE_CONTEXT, const cl_ml_op_gemm_desc_qcom*, FAKE_T, FAKE_T, FAKE_T, FAKE_RESULT))         \
  F(clCreateMLOpBinaryQCOM, (FAKE_CONTEXT, const cl_ml_op_binary_desc_qcom*, FAKE_T, FAKE_T, FAKE_T, FAKE_RESULT))     \
  F(clCreateMLOpConcatQCOM, (FAKE_CONTEXT, const cl_ml_op_concat_desc_qcom*, FAKE_T*, FAKE_T, FAKE_RESULT))            \
  F(clCreateMLOpPadQCOM, (FAKE_CONTEXT, const cl_ml_op_pad_desc_qcom*, FAKE_T, FAKE_T, FAKE_RESULT))                   \
  F(clCreateMLOpDepthToSpaceQCOM,                                                                                      \
    (FAKE_CONTEXT, const cl_ml_op_depthtospace_desc_qcom*, FAKE_T, FAKE_T, FAKE_RESULT))                               \
  F(clCreateMLOpResizeBilinearQCOM,                                                                                    \
    (FAKE_CONTEXT, const cl_ml_op_resize_bilinear_desc_qcom*, FAKE_T, FAKE_T, FAKE_RESULT))

#define FAKE_CLIP(F) \
  F(clCreateMLOpClipQCOM, (FAKE_CONTEXT, const cl_ml_op_clip_desc_qcom*, FAKE_T, FAKE_T, FAKE_RESULT))
#define FAKE_PLAIN_TENSOR(F) \
  F(clCreateMLTensorQCOM, (cl_context, const cl_ml_tensor_properties_qcom*, const cl_ml_tensor_desc_qcom*, FAKE_T*))
#define FAKE_TENSOR_WITH_USAGE(F)                                                                                   \
  F(clCreateMLTensorWithUsageQCOM, (cl_context, const cl_ml_tensor_properties_qcom*, const cl_ml_tensor_desc_qcom*, \
                                    cl_ml_tensor_usage_qcom, FAKE_T*))

#define FAKE_MEMBER(name, parameters) cl_int(*name) parameters;
typedef struct {
  FAKE_PLAIN_TENSOR(FAKE_MEMBER)
  FAKE_SHARED_FUNCTIONS(FAKE_MEMBER)
} CLMLInterfaceV1QCOM;
typedef struct {
  FAKE_SHARED_FUNCTIONS(FAKE_MEMBER)
  FAKE_CLIP(FAKE_MEMBER)
  FAKE_PLAIN_TENSOR(FAKE_MEMBER)
} CLMLInterfaceV2QCOM;
typedef struct {
  FAKE_CLIP(FAKE_MEMBER)
  FAKE_PLAIN_TENSOR(FAKE_MEMBER)
  FAKE_SHARED_FUNCTIONS(FAKE_MEMBER)
} CLMLInterfaceV3QCOM;
typedef struct {
  FAKE_TENSOR_WITH_USAGE(FAKE_MEMBER)
  FAKE_CLIP(FAKE_MEMBER)
  FAKE_SHARED_FUNCTIONS(FAKE_MEMBER)
} CLMLInterfaceV4QCOM;
#undef FAKE_MEMBER

cl_int clQueryMLInterfaceVersionsQCOM(cl_int* majors, cl_int* minors, cl_uint count, cl_uint* found);
CLMLInterfaceV1QCOM* clGetMLInterfaceV1QCOM(cl_int minor);
CLMLInterfaceV2QCOM* clGetMLInterfaceV2QCOM(cl_int minor);
CLMLInterfaceV3QCOM* clGetMLInterfaceV3QCOM(cl_int minor);
CLMLInterfaceV4QCOM* clGetMLInterfaceV4QCOM(cl_int minor);

}  // extern "C"
