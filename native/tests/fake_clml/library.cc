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
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "CL/cl_qcom_ml_ops.h"
#include "layers.h"
#include "tensors.h"

struct FakeSet {
  std::map<FakeTensor*, cl_mem> memory;
};

namespace {

using namespace fake;

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
  table->clCreateMLOpDepthToSpaceQCOM = DepthToSpace;
  table->clCreateMLOpResizeBilinearQCOM = Resize;
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
