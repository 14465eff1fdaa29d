// Qualcomm's CLML library, in whichever version the driver has it.
//
// Its functions are in tables, one for each version of the interface, which only Qualcomm's header describes. Where a
// program is compiled with that header (CL/cl_qcom_ml_ops.h of the OpenCL ML SDK) on its include path, it uses the
// tables that the header knows; else TVMAKE_HAS_CLML is 0, and nothing here is there.
#pragma once

// Before the header, which may define macros with the names of the constants in there.
#include "device.h"

#if __has_include(<CL/cl_qcom_ml_ops.h>)
#define TVMAKE_HAS_CLML 1

#include <CL/cl_qcom_ml_ops.h>

#include <memory>
#include <string>

namespace tvmake {
namespace clml {

/// What a tensor is for.
enum class Usage { kNothing, kWeight, kValue };

/// The functions that are used here. Arguments are the library's; so are codes that are given back.
class Library {
 public:
  virtual ~Library() = default;

  const std::string& version() const { return version_; }

  virtual cl_int CreateTensor(cl_context, const cl_ml_tensor_desc_qcom&, Usage, cl_ml_tensor_qcom*) const = 0;
  virtual cl_int ReleaseTensor(cl_ml_tensor_qcom) const = 0;
  virtual cl_int TensorBytes(cl_context, cl_ml_tensor_qcom, cl_uint*) const = 0;
  virtual cl_int Write(cl_command_queue, const void*, const cl_ml_tensor_memory_desc_qcom&, cl_event*) const = 0;
  virtual cl_int Copy(cl_command_queue, const cl_ml_tensor_memory_desc_qcom& from,
                      const cl_ml_tensor_memory_desc_qcom& to, cl_event*) const = 0;
  virtual cl_int CreateSet(cl_ml_tensor_mem_desc_set_qcom*) const = 0;
  virtual cl_int UpdateSet(cl_ml_tensor_mem_desc_set_qcom, cl_uint, const cl_ml_tensor_memory_desc_qcom*) const = 0;
  virtual cl_int ReleaseSet(cl_ml_tensor_mem_desc_set_qcom) const = 0;
  virtual cl_int Enqueue(cl_command_queue, cl_ml_op_qcom, cl_ml_tensor_mem_desc_set_qcom, cl_event*) const = 0;
  virtual cl_int ReleaseOp(cl_ml_op_qcom) const = 0;

  /// A convolution's tensors; those of a batch normalisation and `activation` are null without one.
  struct Convolution {
    cl_ml_op_convolution_desc_qcom description;
    const cl_ml_op_activation_desc_qcom* activation = nullptr;
    const cl_ml_op_batchnorm_desc_qcom* normalisation = nullptr;
    const cl_ml_op_properties_qcom* properties = nullptr;
    cl_ml_tensor_qcom input = nullptr, weight = nullptr, bias = nullptr, output = nullptr;
    cl_ml_tensor_qcom mean = nullptr, variance = nullptr, scale = nullptr, shift = nullptr;
  };
  virtual cl_int CreateConvolution(cl_context, const Convolution&, cl_ml_op_qcom*) const = 0;
  virtual cl_int CreateBatchNorm(cl_context, const Convolution&, cl_ml_op_qcom*) const = 0;
  virtual cl_int CreateActivation(cl_context, const cl_ml_op_activation_desc_qcom&, cl_ml_tensor_qcom input,
                                  cl_ml_tensor_qcom unused, cl_ml_tensor_qcom output, cl_ml_op_qcom*) const = 0;
  virtual cl_int CreatePooling(cl_context, const cl_ml_op_pooling_desc_qcom&, cl_ml_tensor_qcom input,
                               cl_ml_tensor_qcom unused, cl_ml_tensor_qcom output, cl_ml_op_qcom*) const = 0;
  virtual cl_int CreateSoftmax(cl_context, const cl_ml_op_softmax_desc_qcom&, cl_ml_tensor_qcom input,
                               cl_ml_tensor_qcom output, cl_ml_op_qcom*) const = 0;
  virtual cl_int CreateReshape(cl_context, cl_ml_tensor_qcom input, cl_ml_tensor_qcom output, cl_ml_op_qcom*) const = 0;
  virtual cl_int CreateFullyConnected(cl_context, const cl_ml_op_fully_connected_desc_qcom&, cl_ml_tensor_qcom input,
                                      cl_ml_tensor_qcom weight, cl_ml_tensor_qcom bias, cl_ml_tensor_qcom output,
                                      cl_ml_op_qcom*) const = 0;
  virtual cl_int CreateProduct(cl_context, const cl_ml_op_gemm_desc_qcom&, cl_ml_tensor_qcom left,
                               cl_ml_tensor_qcom right, cl_ml_tensor_qcom output, cl_ml_op_qcom*) const = 0;
  virtual cl_int CreateBinary(cl_context, const cl_ml_op_binary_desc_qcom&, cl_ml_tensor_qcom left,
                              cl_ml_tensor_qcom right, cl_ml_tensor_qcom output, cl_ml_op_qcom*) const = 0;
  /// CL_INVALID_OPERATION where this version has none.
  virtual cl_int CreateClip(cl_context, const cl_ml_op_clip_desc_qcom&, cl_ml_tensor_qcom input,
                            cl_ml_tensor_qcom output, cl_ml_op_qcom*) const = 0;
  virtual cl_int CreateConcat(cl_context, const cl_ml_op_concat_desc_qcom&, cl_ml_tensor_qcom* inputs,
                              cl_ml_tensor_qcom output, cl_ml_op_qcom*) const = 0;
  virtual cl_int CreatePad(cl_context, const cl_ml_op_pad_desc_qcom&, cl_ml_tensor_qcom input, cl_ml_tensor_qcom output,
                           cl_ml_op_qcom*) const = 0;
  virtual cl_int CreateDepthToSpace(cl_context, const cl_ml_op_depthtospace_desc_qcom&, cl_ml_tensor_qcom input,
                                    cl_ml_tensor_qcom output, cl_ml_op_qcom*) const = 0;
  virtual cl_int CreateResize(cl_context, const cl_ml_op_resize_bilinear_desc_qcom&, cl_ml_tensor_qcom input,
                              cl_ml_tensor_qcom output, cl_ml_op_qcom*) const = 0;

 protected:
  explicit Library(std::string version) : version_(std::move(version)) {}

 private:
  std::string version_;
};

/// The newest version that both the driver's library and this program know; null, and why not.
const Library* FindLibrary(opencl::Device* device, std::string* why);

}  // namespace clml
}  // namespace tvmake

#else
#define TVMAKE_HAS_CLML 0
#endif
