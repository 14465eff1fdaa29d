// What TVM asks of every kind of device: memory, copies, facts, time.
#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/runtime/device_api.h>
#include <tvm/runtime/timer.h>

#include <sstream>
#include <string>

#include "copy.h"
#include "device.h"
#include "kernel.h"
#include "memory.h"
#include "texture.h"

namespace tvmake {
namespace opencl {
namespace {

namespace ffi = tvm::ffi;
using tvm::runtime::DeviceAttrKind;
using Scope = ffi::Optional<ffi::String>;

std::string Dimensions(const DeviceFacts& facts) {
  std::ostringstream text;
  text << "[" << facts.max_items[0] << ", " << facts.max_items[1] << ", " << facts.max_items[2] << "]";
  return text.str();
}

// "OpenCL 3.0 PoCL …" -> "3.0"
std::string VersionNumber(const std::string& version) {
  const std::string prefix = "OpenCL ";
  return version.compare(0, prefix.size(), prefix) == 0
             ? version.substr(prefix.size(), version.find(' ', prefix.size()) - prefix.size())
             : version;
}

// What decides whether a package can run at all, beyond what TVM asks devices for; a line each, `name=value`.
ffi::String Limits(int index) {
  const DeviceFacts& facts = GetDevice(index).facts();
  std::ostringstream text;
  text << "float16=" << (facts.has_half ? "yes" : "no") << "\nimages=";
  if (facts.has_images) {
    text << facts.image_width << " x " << facts.image_height << " x " << facts.image_layers;
  } else {
    text << "none";
  }
  return text.str();
}

class OpenCLDeviceAPI final : public tvm::runtime::DeviceAPI {
 public:
  static OpenCLDeviceAPI* Global() {
    static auto* api = new OpenCLDeviceAPI();  // never freed: tensors may outlive every static
    return api;
  }

  void SetDevice(tvm::Device device) final { SetCurrentDevice(device.device_id); }

  void GetAttr(tvm::Device device, DeviceAttrKind kind, ffi::Any* rv) final {
    if (kind == tvm::runtime::kExist) {
      *rv = device.device_id >= 0 && static_cast<size_t>(device.device_id) < CountDevices() ? 1 : 0;
      return;
    }
    const DeviceFacts& facts = GetDevice(device.device_id).facts();
    switch (kind) {
      case tvm::runtime::kMaxThreadsPerBlock: *rv = static_cast<int64_t>(facts.max_group); break;
      case tvm::runtime::kWarpSize:
        *rv = 1;  // OpenCL 1.2 does not tell; TVM's OpenCL code uses no warp instructions
        break;
      case tvm::runtime::kMaxSharedMemoryPerBlock: *rv = static_cast<int64_t>(facts.local_bytes); break;
      case tvm::runtime::kComputeVersion: *rv = ffi::String(VersionNumber(facts.version)); break;
      case tvm::runtime::kDeviceName: *rv = ffi::String(facts.name); break;
      case tvm::runtime::kMaxClockRate:
        *rv = static_cast<int64_t>(facts.clock_mhz) * 1000;  // TVM counts in kHz
        break;
      case tvm::runtime::kMultiProcessorCount: *rv = static_cast<int64_t>(facts.compute_units); break;
      case tvm::runtime::kMaxThreadDimensions: *rv = ffi::String(Dimensions(facts)); break;
      case tvm::runtime::kDriverVersion: *rv = ffi::String(facts.driver); break;
      case tvm::runtime::kL2CacheSizeBytes: *rv = static_cast<int64_t>(facts.cache_bytes); break;
      case tvm::runtime::kTotalGlobalMemory: *rv = static_cast<int64_t>(facts.global_bytes); break;
      case tvm::runtime::kImagePitchAlignment: *rv = static_cast<int64_t>(facts.image_pitch_alignment); break;
      default: break;  // registers, GCN architecture, API version, free memory: OpenCL does not tell
    }
  }

  size_t GetDataSize(const DLTensor& tensor, Scope scope) final {
    if (!IsTextureScope(scope)) return DeviceAPI::GetDataSize(tensor, scope);
    return TextureShape(scope.value(), tensor.ndim, tensor.shape, tensor.dtype).bytes();
  }

  void* AllocDataSpace(tvm::Device device, size_t bytes, size_t, DLDataType) final {
    return Memory::Buffer(&GetDevice(device.device_id), bytes);
  }

  void* AllocDataSpace(tvm::Device device, int rank, const int64_t* shape, DLDataType dtype, Scope scope) final {
    if (!IsTextureScope(scope)) return DeviceAPI::AllocDataSpace(device, rank, shape, dtype, scope);
    return Memory::Image(&GetDevice(device.device_id), TextureShape(scope.value(), rank, shape, dtype));
  }

  void FreeDataSpace(tvm::Device, void* data) final { delete static_cast<Memory*>(data); }

  void* AllocWorkspace(tvm::Device device, size_t bytes, DLDataType) final {
    return GetDevice(device.device_id).pool().TakeBuffer(bytes);
  }

  void FreeWorkspace(tvm::Device, void* data) final { GiveBack(data); }

  void CopyDataFromTo(DLTensor* from, DLTensor* to, TVMStreamHandle) final { CopyTensor(*from, *to); }

  void StreamSync(tvm::Device device, TVMStreamHandle) final { GetDevice(device.device_id).queue().Finish(); }

  static void GiveBack(void* data) {
    auto* memory = static_cast<Memory*>(data);
    if (!IsForked()) memory->device().pool().Give(memory);
  }

 private:
  static bool IsTextureScope(const Scope& scope) { return scope.has_value() && IsTexture(scope.value()); }
};

class TimerNode final : public tvm::runtime::TimerNode {
 public:
  explicit TimerNode(tvm::Device device) : stopwatch_(&GetDevice(device.device_id).queue()) {}
  void Start() final { stopwatch_.Start(); }
  void Stop() final { stopwatch_.Stop(); }
  int64_t SyncAndGetElapsedNanos() final { return stopwatch_.Nanoseconds(); }

  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tvmake.OpenCLTimer", TimerNode, tvm::runtime::TimerNode);

 private:
  Stopwatch stopwatch_;
};

// Arguments as TVM lowers a kernel's intermediate texture: device, element type, scope, rank 3, extents, bits a pixel.
void* AllocTexture(int, int device_id, int code, int bits, const ffi::String&, int64_t, void* extents, int64_t) {
  const auto* shape = static_cast<const int64_t*>(extents);
  const DLDataType dtype = {static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
  return GetDevice(device_id).pool().TakeImage(
      TextureShape(static_cast<size_t>(shape[0]), static_cast<size_t>(shape[1]), static_cast<size_t>(shape[2]), dtype));
}

int FreeTexture(int, int, const ffi::String&, void* data) {
  OpenCLDeviceAPI::GiveBack(data);
  return 0;
}

TVM_FFI_STATIC_INIT_BLOCK() {
  ffi::reflection::GlobalDef()
      .def("device_api.opencl",
           [] {
             tvm::runtime::DeviceAPI* api = OpenCLDeviceAPI::Global();
             return static_cast<void*>(api);  // the base's address: TVM casts it back to that
           })
      .def("device_api.opencl.alloc_nd", AllocTexture)
      .def("device_api.opencl.free_nd", FreeTexture)
      .def("tvmake.opencl.limits", Limits)
      .def("runtime.timer.opencl",
           [](tvm::Device device) { return tvm::runtime::Timer(ffi::make_object<TimerNode>(device)); });
}

}  // namespace
}  // namespace opencl
}  // namespace tvmake
