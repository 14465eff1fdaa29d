// What a package holds for CLML: one function a part of the network, and whether CLML computes it here.
#pragma once

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "graph.h"
#include "network.h"

namespace tvmake {
namespace clml {

/// Has two functions. `<symbol>_ready(inputs…, weights…)` makes the layers at its first call, and says whether CLML
/// computes them on the arguments' device. `<symbol>(inputs…, weights…, outputs…)` runs them, after it has said so.
///
/// Its bytes are those of TVM's own modules of the kind "clml": symbol, graph in JSON, names of the weights.
class ClmlModule : public tvm::ffi::ModuleObj {
 public:
  ClmlModule(std::string symbol, std::string graph, std::vector<std::string> weights);
  ~ClmlModule();

  const char* kind() const final { return "clml"; }
  int GetPropertyMask() const final;
  tvm::ffi::Optional<tvm::ffi::Function> GetFunction(const tvm::ffi::String& name) final;
  tvm::ffi::Bytes SaveToBytes() const final;
  tvm::ffi::String InspectSource(const tvm::ffi::String& format) const final;

  /// Throws ValueError when the bytes are damaged.
  static tvm::ffi::Module LoadFromBytes(const tvm::ffi::Bytes& bytes);

  /// How it is computed, after the first call.
  struct State {
    std::string version;  // CLML's; empty where kernels compute it
    std::string why;      // they do
    size_t layers = 0;
    size_t bytes = 0;
  };
  const std::string& symbol() const { return symbol_; }
  std::vector<State> States();

 private:
  struct Made {
    State state;
    std::unique_ptr<Network> network;
    std::vector<tvm::ffi::Tensor> weights;  // held, so that their memory is not another tensor's
  };

  bool IsReady(tvm::ffi::PackedArgs args);
  void Run(tvm::ffi::PackedArgs args);
  void Make(opencl::Device* device, tvm::ffi::PackedArgs args, Made* made);

  std::string symbol_;
  std::string text_;
  std::vector<std::string> weight_names_;
  Graph graph_;
  std::mutex mutex_;
  std::map<opencl::Device*, Made> made_;
};

}  // namespace clml
}  // namespace tvmake
