#include "library.h"

#if TVMAKE_HAS_CLML

#include <map>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "error.h"

namespace tvmake {
namespace clml {
namespace {

constexpr cl_int kNotThere = -59;  // CL_INVALID_OPERATION
constexpr cl_uint kMostVersions = 256;

// What a version's table has, seen from its type.
template <typename Table, typename = void>
struct HasClip : std::false_type {};
template <typename Table>
struct HasClip<Table, std::void_t<decltype(std::declval<Table>().clCreateMLOpClipQCOM)>> : std::true_type {};

template <typename Table, typename = void>
struct HasUsage : std::false_type {};
template <typename Table>
struct HasUsage<Table, std::void_t<decltype(std::declval<Table>().clCreateMLTensorWithUsageQCOM)>> : std::true_type {};

template <typename Table>
class LibraryOf final : public Library {
 public:
  LibraryOf(const Table* table, std::string version) : Library(std::move(version)), table_(table) {}

  cl_int CreateTensor(cl_context context, const cl_ml_tensor_desc_qcom& description, Usage usage,
                      cl_ml_tensor_qcom* tensor) const final {
    if constexpr (HasUsage<Table>::value) {
      const auto meant = usage == Usage::kNothing  ? CL_TENSOR_USAGE_UNUSED_QCOM
                         : usage == Usage::kWeight ? CL_TENSOR_USAGE_PARAMETER_QCOM
                                                   : CL_TENSOR_USAGE_CNN_QCOM;
      return table_->clCreateMLTensorWithUsageQCOM(context, nullptr, &description, meant, tensor);
    } else {
      return table_->clCreateMLTensorQCOM(context, nullptr, &description, tensor);
    }
  }
  cl_int ReleaseTensor(cl_ml_tensor_qcom tensor) const final { return table_->clReleaseMLTensorQCOM(tensor); }
  cl_int TensorBytes(cl_context context, cl_ml_tensor_qcom tensor, cl_uint* bytes) const final {
    return table_->clGetMLTensorMemorySizeQCOM(context, tensor, bytes);
  }
  cl_int Write(cl_command_queue queue, const void* data, const cl_ml_tensor_memory_desc_qcom& to,
               cl_event* event) const final {
    return table_->clEnqueueWriteMLTensorDataQCOM(queue, data, CL_TENSOR_LAYOUT_NCHW_QCOM, to.tensor, to.memory, 0,
                                                  nullptr, event);
  }
  cl_int Copy(cl_command_queue queue, const cl_ml_tensor_memory_desc_qcom& from,
              const cl_ml_tensor_memory_desc_qcom& to, cl_event* event) const final {
    return table_->clEnqueueCopyMLTensorDataQCOM(queue, from.tensor, from.memory, to.tensor, to.memory, 0, nullptr,
                                                 event);
  }
  cl_int CreateSet(cl_ml_tensor_mem_desc_set_qcom* set) const final {
    return table_->clCreateMLTensorMemoryDescriptorSetQCOM(set);
  }
  cl_int UpdateSet(cl_ml_tensor_mem_desc_set_qcom set, cl_uint count,
                   const cl_ml_tensor_memory_desc_qcom* tensors) const final {
    return table_->clUpdateMLTensorMemoryDescriptorSetQCOM(set, count, tensors);
  }
  cl_int ReleaseSet(cl_ml_tensor_mem_desc_set_qcom set) const final {
    return table_->clReleaseMLTensorMemoryDescriptorSetQCOM(set);
  }
  cl_int Enqueue(cl_command_queue queue, cl_ml_op_qcom op, cl_ml_tensor_mem_desc_set_qcom set,
                 cl_event* event) const final {
    return table_->clEnqueueMLOpQCOM(queue, op, set, 0, nullptr, event);
  }
  cl_int ReleaseOp(cl_ml_op_qcom op) const final { return table_->clReleaseMLOpQCOM(op); }

  cl_int CreateConvolution(cl_context context, const Convolution& of, cl_ml_op_qcom* op) const final {
    if (of.normalisation != nullptr && of.activation != nullptr) {
      return table_->clCreateMLOpFusedConvolutionBatchNormActivationForwardQCOM(
          context, of.properties, &of.description, of.normalisation, of.activation, of.input, of.weight, of.bias,
          of.output, nullptr, of.mean, of.variance, of.scale, of.shift, op, nullptr);
    }
    if (of.normalisation != nullptr) {
      return table_->clCreateMLOpFusedConvolutionBatchNormForwardQCOM(
          context, of.properties, &of.description, of.normalisation, of.input, of.weight, of.bias, of.output, of.mean,
          of.variance, of.scale, of.shift, op, nullptr);
    }
    if (of.activation != nullptr) {
      return table_->clCreateMLOpFusedConvolutionActivationForwardQCOM(context, nullptr, &of.description, of.activation,
                                                                       of.input, of.weight, of.bias, nullptr, of.output,
                                                                       op, nullptr);
    }
    return table_->clCreateMLOpConvolutionForwardQCOM(context, nullptr, &of.description, of.input, of.weight, of.bias,
                                                      of.output, op, nullptr);
  }
  cl_int CreateBatchNorm(cl_context context, const Convolution& of, cl_ml_op_qcom* op) const final {
    return table_->clCreateMLOpBatchNormForwardQCOM(context, of.properties, of.normalisation, of.input, of.mean,
                                                    of.variance, of.scale, of.shift, of.output, op, nullptr);
  }
  cl_int CreateActivation(cl_context context, const cl_ml_op_activation_desc_qcom& description, cl_ml_tensor_qcom input,
                          cl_ml_tensor_qcom unused, cl_ml_tensor_qcom output, cl_ml_op_qcom* op) const final {
    return table_->clCreateMLOpActivationForwardQCOM(context, nullptr, &description, input, unused, output, op,
                                                     nullptr);
  }
  cl_int CreatePooling(cl_context context, const cl_ml_op_pooling_desc_qcom& description, cl_ml_tensor_qcom input,
                       cl_ml_tensor_qcom unused, cl_ml_tensor_qcom output, cl_ml_op_qcom* op) const final {
    return table_->clCreateMLOpPoolingForwardQCOM(context, nullptr, &description, input, unused, output, op, nullptr);
  }
  cl_int CreateSoftmax(cl_context context, const cl_ml_op_softmax_desc_qcom& description, cl_ml_tensor_qcom input,
                       cl_ml_tensor_qcom output, cl_ml_op_qcom* op) const final {
    return table_->clCreateMLOpSoftmaxQCOM(context, nullptr, &description, input, output, op, nullptr);
  }
  cl_int CreateReshape(cl_context context, cl_ml_tensor_qcom input, cl_ml_tensor_qcom output,
                       cl_ml_op_qcom* op) const final {
    return table_->clCreateMLOpReshapeQCOM(context, nullptr, input, output, op, nullptr);
  }
  cl_int CreateFullyConnected(cl_context context, const cl_ml_op_fully_connected_desc_qcom& description,
                              cl_ml_tensor_qcom input, cl_ml_tensor_qcom weight, cl_ml_tensor_qcom bias,
                              cl_ml_tensor_qcom output, cl_ml_op_qcom* op) const final {
    return table_->clCreateMLOpFullyConnectedQCOM(context, nullptr, &description, input, weight, bias, output, op,
                                                  nullptr);
  }
  cl_int CreateProduct(cl_context context, const cl_ml_op_gemm_desc_qcom& description, cl_ml_tensor_qcom left,
                       cl_ml_tensor_qcom right, cl_ml_tensor_qcom output, cl_ml_op_qcom* op) const final {
    return table_->clCreateMLOpGemmQCOM(context, nullptr, &description, left, right, output, op, nullptr);
  }
  cl_int CreateBinary(cl_context context, const cl_ml_op_binary_desc_qcom& description, cl_ml_tensor_qcom left,
                      cl_ml_tensor_qcom right, cl_ml_tensor_qcom output, cl_ml_op_qcom* op) const final {
    return table_->clCreateMLOpBinaryQCOM(context, nullptr, &description, left, right, output, op, nullptr);
  }
  cl_int CreateClip(cl_context context, const cl_ml_op_clip_desc_qcom& description, cl_ml_tensor_qcom input,
                    cl_ml_tensor_qcom output, cl_ml_op_qcom* op) const final {
    if constexpr (HasClip<Table>::value) {
      return table_->clCreateMLOpClipQCOM(context, nullptr, &description, input, output, op, nullptr);
    } else {
      return kNotThere;
    }
  }
  cl_int CreateConcat(cl_context context, const cl_ml_op_concat_desc_qcom& description, cl_ml_tensor_qcom* inputs,
                      cl_ml_tensor_qcom output, cl_ml_op_qcom* op) const final {
    return table_->clCreateMLOpConcatQCOM(context, nullptr, &description, inputs, output, op, nullptr);
  }
  cl_int CreatePad(cl_context context, const cl_ml_op_pad_desc_qcom& description, cl_ml_tensor_qcom input,
                   cl_ml_tensor_qcom output, cl_ml_op_qcom* op) const final {
    return table_->clCreateMLOpPadQCOM(context, nullptr, &description, input, output, op, nullptr);
  }
  cl_int CreateDepthToSpace(cl_context context, const cl_ml_op_depthtospace_desc_qcom& description,
                            cl_ml_tensor_qcom input, cl_ml_tensor_qcom output, cl_ml_op_qcom* op) const final {
    return table_->clCreateMLOpDepthToSpaceQCOM(context, nullptr, &description, input, output, op, nullptr);
  }
  cl_int CreateResize(cl_context context, const cl_ml_op_resize_bilinear_desc_qcom& description,
                      cl_ml_tensor_qcom input, cl_ml_tensor_qcom output, cl_ml_op_qcom* op) const final {
    return table_->clCreateMLOpResizeBilinearQCOM(context, nullptr, &description, input, output, op, nullptr);
  }

 private:
  const Table* table_;
};

template <typename Table>
std::unique_ptr<Library> Open(const char* getter, cl_int major, cl_int minor) {
  const auto get = reinterpret_cast<Table* (*)(cl_int)>(opencl::FindFunction(getter));
  const Table* table = get == nullptr ? nullptr : get(minor);
  if (table == nullptr) return nullptr;
  return std::make_unique<LibraryOf<Table>>(table, std::to_string(major) + "." + std::to_string(minor));
}

std::unique_ptr<Library> Open(cl_int major, cl_int minor) {
  switch (major) {
    case 1: return Open<CLMLInterfaceV1QCOM>("clGetMLInterfaceV1QCOM", major, minor);
#if CL_QCOM_ML_OPS_H_MAJOR_VERSION >= 2
    case 2: return Open<CLMLInterfaceV2QCOM>("clGetMLInterfaceV2QCOM", major, minor);
#endif
#if CL_QCOM_ML_OPS_H_MAJOR_VERSION >= 3
    case 3: return Open<CLMLInterfaceV3QCOM>("clGetMLInterfaceV3QCOM", major, minor);
#endif
#if CL_QCOM_ML_OPS_H_MAJOR_VERSION >= 4
    case 4: return Open<CLMLInterfaceV4QCOM>("clGetMLInterfaceV4QCOM", major, minor);
#endif
    default: return nullptr;
  }
}

bool HasExtension(opencl::Device* device) {
  const opencl::Api& api = opencl::GetApi();
  size_t bytes = 0;
  if (api.clGetDeviceInfo(device->id(), opencl::CL_DEVICE_EXTENSIONS, 0, nullptr, &bytes) != 0) return false;
  std::string names(bytes, '\0');
  if (api.clGetDeviceInfo(device->id(), opencl::CL_DEVICE_EXTENSIONS, bytes, &names[0], nullptr) != 0) return false;
  return names.find("cl_qcom_ml_ops") != std::string::npos;
}

struct Found {
  std::unique_ptr<Library> library;
  std::string why;
};

Found Find(opencl::Device* device) {
  Found found;
  if (!HasExtension(device)) {
    found.why = "'" + device->facts().name + "' does not have cl_qcom_ml_ops";
    return found;
  }
  const auto query = reinterpret_cast<cl_int (*)(cl_int*, cl_int*, cl_uint, cl_uint*)>(
      opencl::FindFunction("clQueryMLInterfaceVersionsQCOM"));
  cl_uint count = 0;
  if (query == nullptr || query(nullptr, nullptr, 0, &count) != 0 || count == 0 || count > kMostVersions) {
    found.why = "the driver's library lacks CLML, though '" + device->facts().name + "' has cl_qcom_ml_ops";
    return found;
  }
  std::vector<cl_int> majors(count), minors(count);
  if (query(majors.data(), minors.data(), count, nullptr) != 0) {
    found.why = "the driver does not tell which versions of CLML it has";
    return found;
  }
  std::string versions;
  std::map<std::pair<cl_int, cl_int>, bool> sorted;
  for (cl_uint i = 0; i < count; ++i) sorted[{majors[i], minors[i]}] = true;
  for (const auto& [version, is_there] : sorted) {
    versions += (versions.empty() ? "" : ", ") + std::to_string(version.first) + "." + std::to_string(version.second);
  }
  for (auto version = sorted.rbegin(); version != sorted.rend(); ++version) {
    found.library = Open(version->first.first, version->first.second);
    if (found.library != nullptr) return found;
  }
  found.why = "the driver has CLML " + versions + ", and this program knows 1 to " +
              std::to_string(CL_QCOM_ML_OPS_H_MAJOR_VERSION < 4 ? CL_QCOM_ML_OPS_H_MAJOR_VERSION : 4);
  return found;
}

}  // namespace

const Library* FindLibrary(opencl::Device* device, std::string* why) {
  static std::mutex mutex;
  static auto* libraries = new std::map<opencl::Device*, Found>();  // never freed: drivers keep threads
  std::lock_guard<std::mutex> lock(mutex);
  auto known = libraries->find(device);
  if (known == libraries->end()) known = libraries->emplace(device, Find(device)).first;
  *why = known->second.why;
  return known->second.library.get();
}

}  // namespace clml
}  // namespace tvmake

#endif  // TVMAKE_HAS_CLML
