// A graph made ready on a device by Qualcomm's library.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device.h"
#include "graph.h"
#include "memory.h"

namespace tvmake {
namespace clml {

/// Layers with their weights, on one device.
class Network {
 public:
  virtual ~Network() = default;

  /// Submits the layers to the device's queue, and does not wait for them. Memory is that of tensors in rows.
  virtual void Run(const std::vector<opencl::Memory*>& inputs, const std::vector<opencl::Memory*>& outputs) = 0;

  /// Bytes of device memory that it holds beside its arguments: weights in CLML's layouts, and values between layers.
  virtual size_t bytes() const = 0;
};

/// The version of CLML that a device's driver and this program share ("4.0"); empty without one, and `why` says
/// what is missing.
std::string VersionOf(opencl::Device* device, std::string* why);

/// Makes the layers of a graph. Null where CLML cannot compute them on the device, and `why` says what it refused.
std::unique_ptr<Network> MakeNetwork(opencl::Device* device, const Graph& graph,
                                     const std::vector<opencl::Memory*>& weights, std::string* why);

}  // namespace clml
}  // namespace tvmake
