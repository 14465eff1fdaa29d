#include "tensor_functions.h"

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>
#include <tvm/runtime/tensor.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>
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

using Memory = std::pair<const char*, const char*>;  // begin and end

Memory MemoryOf(const DLTensor& tensor) {
  const auto* const begin = static_cast<const char*>(tensor.data) + tensor.byte_offset;
  return {begin, begin + tvm::ffi::GetDataSize(tensor)};
}

// What the arguments of virtual machines are in, if it belongs to the client.
std::map<const tvm::ffi::Object*, std::vector<Memory>>& Lent() {
  static std::map<const tvm::ffi::Object*, std::vector<Memory>> lent;
  return lent;
}

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

Function FunctionOf(const Module& machine, const char* name) {
  const auto function = machine->GetFunction(name);
  if (!function.has_value()) TVM_FFI_THROW(ValueError) << "tvmake.rpc." << name << ": this is not a virtual machine";
  return *function;
}

void SetInput(PackedArgs args, Any* result) {
  const auto machine = args[0].cast<Module>();
  const Function set_input = FunctionOf(machine, "set_input");
  std::vector<Memory>& lent = Lent()[machine.get()];
  lent.clear();
  std::vector<Any> given = {args[1].cast<String>()};
  for (int i = 2; i < args.size(); ++i) {
    if (const auto several = args[i].as<Array<Tensor>>()) {
      for (const Tensor& tensor : *several) given.emplace_back(tensor);
    } else {
      const DLTensor& lender = *args[i].cast<DLTensor*>();
      lent.push_back(MemoryOf(lender));
      given.emplace_back(Borrowed(lender));
    }
  }
  const std::vector<AnyView> views(given.begin(), given.end());
  set_input.CallPacked(views.data(), static_cast<int32_t>(views.size()), result);
}

void GetOutput(PackedArgs args, Any* result) {
  const auto machine = args[0].cast<Module>();
  const auto value = FunctionOf(machine, "get_output")(args[1], args[2]).cast<Tensor>();
  const Memory memory = MemoryOf(*value.GetDLTensorPtr());
  const std::vector<Memory>& lent = Lent()[machine.get()];
  const bool is_lent = std::any_of(lent.begin(), lent.end(), [&](const Memory& lender) {
    return memory.first < lender.second && lender.first < memory.second;
  });
  *result = is_lent ? tvm::runtime::Tensor(value).CopyTo(value.device()) : tvm::runtime::Tensor(value);
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
  set("tvmake.rpc.get_output", Function::FromPacked(GetOutput));
  set("tvmake.rpc.parameters", Function::FromPacked(LoadParameters));
}

}  // namespace tvmake
