#include "tensor_functions.h"

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>
#include <tvm/runtime/tensor.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

#include "weights_file.h"

namespace tvmake {
namespace {

using tvm::ffi::Any;
using tvm::ffi::AnyView;
using tvm::ffi::Array;
using tvm::ffi::Function;
using tvm::ffi::Module;
using tvm::ffi::PackedArgs;
using tvm::ffi::String;
using tvm::ffi::Tensor;

// A tensor in memory that belongs to somebody else.
Tensor Borrowed(const DLTensor& lender) {
  struct Loan {
    DLManagedTensor tensor;
    std::vector<int64_t> shape;
  };
  auto* loan = new Loan{{lender, nullptr, nullptr}, {lender.shape, lender.shape + lender.ndim}};
  loan->tensor.dl_tensor.shape = loan->shape.data();
  loan->tensor.manager_ctx = loan;
  loan->tensor.deleter = [](DLManagedTensor* tensor) { delete static_cast<Loan*>(tensor->manager_ctx); };
  return Tensor::FromDLPack(&loan->tensor);
}

int64_t Address(const DLTensor* tensor) { return reinterpret_cast<int64_t>(tensor->data); }

void SetInput(PackedArgs args, Any* result) {
  const auto set_input = args[0].cast<Module>()->GetFunction("set_input");
  if (!set_input.has_value()) TVM_FFI_THROW(ValueError) << "tvmake.rpc.set_input: this is not a virtual machine";
  std::vector<Any> given = {args[1].cast<String>()};
  for (int i = 2; i < args.size(); ++i) {
    if (const auto several = args[i].as<Array<Tensor>>()) {
      for (const Tensor& tensor : *several) given.emplace_back(tensor);
    } else {
      given.emplace_back(Borrowed(*args[i].cast<DLTensor*>()));
    }
  }
  const std::vector<AnyView> views(given.begin(), given.end());
  set_input.value().CallPacked(views.data(), static_cast<int32_t>(views.size()), result);
}

void LoadParameters(PackedArgs args, Any* result) {
  const auto file = args[0].cast<String>();
  const DLDevice device{static_cast<DLDeviceType>(args[1].cast<int>()), args[2].cast<int>()};
  const WeightsFile weights = [&file] {
    try {
      return WeightsFile(file);
    } catch (const std::invalid_argument& error) {
      TVM_FFI_THROW(ValueError) << file << ": " << error.what();
    }
  }();
  Array<Tensor> placed;
  for (int i = 3; i < args.size(); ++i) {
    const auto name = args[i].cast<String>();
    const std::optional<Tensor> value = weights.Load(name);
    if (!value) TVM_FFI_THROW(ValueError) << file << " lacks the parameter '" << name << "'";
    placed.push_back(device.device_type == kDLCPU ? *value : tvm::runtime::Tensor(*value).CopyTo(device));
  }
  *result = placed;
}

}  // namespace

void RegisterTensorFunctions() {
  const auto set = [](const char* name, Function function) { Function::SetGlobal(name, function, /*override=*/true); };
  set("tvmake.rpc.address", Function::FromTyped([](DLTensor* tensor) { return Address(tensor); }));
  set("tvmake.rpc.set_input", Function::FromPacked(SetInput));
  set("tvmake.rpc.parameters", Function::FromPacked(LoadParameters));
}

}  // namespace tvmake
