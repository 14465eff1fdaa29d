#include "device.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace tvmake {
namespace opencl {
namespace {

// The answer of clGetDeviceInfo or clGetPlatformInfo to one question, which `query` puts to it.
template <typename Query>
std::string Text(Query query) {
  size_t size = 0;
  Check(query(0, nullptr, &size), "cannot query a device");
  std::string text(size, '\0');
  Check(query(size, text.data(), nullptr), "cannot query a device");
  while (!text.empty() && (text.back() == '\0' || text.back() == ' ')) text.pop_back();
  return text;
}

std::string DeviceText(cl_device_id device, cl_info what) {
  return Text([&](size_t size, void* text, size_t* needed) {
    return GetApi().clGetDeviceInfo(device, what, size, text, needed);
  });
}

std::string PlatformText(cl_platform_id platform, cl_info what) {
  return Text([&](size_t size, void* text, size_t* needed) {
    return GetApi().clGetPlatformInfo(platform, what, size, text, needed);
  });
}

template <typename T>
T Number(cl_device_id device, cl_info what) {
  T value{};
  Check(GetApi().clGetDeviceInfo(device, what, sizeof(value), &value, nullptr), "cannot query a device");
  return value;
}

DeviceFacts FactsOf(cl_platform_id platform, cl_device_id device) {
  const Api& api = GetApi();
  DeviceFacts facts;
  facts.platform = PlatformText(platform, CL_PLATFORM_NAME);
  facts.platform_version = PlatformText(platform, CL_PLATFORM_VERSION);
  facts.name = DeviceText(device, CL_DEVICE_NAME);
  facts.vendor = DeviceText(device, CL_DEVICE_VENDOR);
  facts.version = DeviceText(device, CL_DEVICE_VERSION);
  facts.driver = DeviceText(device, CL_DRIVER_VERSION);
  facts.type = Number<cl_bitfield>(device, CL_DEVICE_TYPE);
  facts.compute_units = Number<cl_uint>(device, CL_DEVICE_MAX_COMPUTE_UNITS);
  facts.clock_mhz = Number<cl_uint>(device, CL_DEVICE_MAX_CLOCK_FREQUENCY);
  facts.max_group = Number<size_t>(device, CL_DEVICE_MAX_WORK_GROUP_SIZE);
  size_t items[16] = {};  // a device may have more than three dimensions
  Check(api.clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof(items), items, nullptr),
        "cannot query a device");
  std::copy(items, items + 3, facts.max_items);
  facts.local_bytes = Number<cl_ulong>(device, CL_DEVICE_LOCAL_MEM_SIZE);
  facts.global_bytes = Number<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE);
  facts.cache_bytes = Number<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE);
  facts.max_allocation = Number<cl_ulong>(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  facts.address_alignment = Number<cl_uint>(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8;  // given in bits
  facts.has_images = Number<cl_bool>(device, CL_DEVICE_IMAGE_SUPPORT) != 0;
  if (facts.has_images) {
    facts.image_width = Number<size_t>(device, CL_DEVICE_IMAGE2D_MAX_WIDTH);
    facts.image_height = Number<size_t>(device, CL_DEVICE_IMAGE2D_MAX_HEIGHT);
    facts.image_layers = Number<size_t>(device, CL_DEVICE_IMAGE_MAX_ARRAY_SIZE);
    // OpenCL 2.0; older devices answer with an error, and the value stays 0.
    api.clGetDeviceInfo(device, CL_DEVICE_IMAGE_PITCH_ALIGNMENT, sizeof(facts.image_pitch_alignment),
                        &facts.image_pitch_alignment, nullptr);
  }
  // A list of words; AMD's older drivers have a name of their own for it, which TVM's kernels know.
  const std::string extensions = " " + DeviceText(device, CL_DEVICE_EXTENSIONS) + " ";
  facts.has_half =
      extensions.find(" cl_khr_fp16 ") != std::string::npos || extensions.find(" cl_amd_fp16 ") != std::string::npos;
  return facts;
}

std::vector<cl_platform_id> Platforms() {
  cl_uint count = 0;
  cl_int code = GetApi().clGetPlatformIDs(0, nullptr, &count);
  if (code == CL_PLATFORM_NOT_FOUND_KHR) return {};
  Check(code, "cannot list the platforms");
  std::vector<cl_platform_id> platforms(count);
  if (count != 0) Check(GetApi().clGetPlatformIDs(count, platforms.data(), nullptr), "cannot list the platforms");
  return platforms;
}

std::vector<cl_device_id> DevicesOf(cl_platform_id platform) {
  cl_uint count = 0;
  cl_int code = GetApi().clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count);
  if (code == CL_DEVICE_NOT_FOUND) return {};
  Check(code, "cannot list the devices");
  std::vector<cl_device_id> devices(count);
  if (count != 0) {
    Check(GetApi().clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, devices.data(), nullptr),
          "cannot list the devices");
  }
  return devices;
}

int Rank(const Device& device) {
  if (device.facts().type & CL_DEVICE_TYPE_GPU) return 0;
  return device.facts().type & CL_DEVICE_TYPE_CPU ? 2 : 1;
}

using DeviceList = std::vector<std::unique_ptr<Device>>;

DeviceList Find() {
  DeviceList devices;
  const char* filter = std::getenv("TVMAKE_OPENCL_PLATFORM");
  for (cl_platform_id platform : Platforms()) {
    if (filter != nullptr && PlatformText(platform, CL_PLATFORM_NAME).find(filter) == std::string::npos) continue;
    for (cl_device_id id : DevicesOf(platform)) devices.push_back(std::make_unique<Device>(platform, id));
  }
  std::stable_sort(devices.begin(), devices.end(), [](const auto& a, const auto& b) { return Rank(*a) < Rank(*b); });
  return devices;
}

const DeviceList& Devices() {
  GetApi();                                                   // refuses in a fork, every time
  static const DeviceList* devices = new DeviceList(Find());  // never freed: memory may outlive every other static
  return *devices;
}

}  // namespace

Device::Device(cl_platform_id platform, cl_device_id id)
    : platform_(platform), id_(id), facts_(FactsOf(platform, id)) {}

void Device::Open() {
  std::call_once(opened_, [this] {
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, reinterpret_cast<intptr_t>(platform_), 0};
    cl_int code = CL_SUCCESS;
    context_ = GetApi().clCreateContext(properties, 1, &id_, nullptr, nullptr, &code);
    if (code != CL_SUCCESS) Fail(code, "cannot open '" + facts_.name + "'");
    queue_ = std::make_unique<Queue>(context_, id_);
    slabs_ = std::make_unique<Slabs>(this);
    pool_ = std::make_unique<Pool>(this);
  });
}

cl_context Device::context() {
  Open();
  return context_;
}

Queue& Device::queue() {
  Open();
  return *queue_;
}

Pool& Device::pool() {
  Open();
  return *pool_;
}

Slabs& Device::slabs() {
  Open();
  return *slabs_;
}

void Device::FailAllocation(cl_int code, size_t bytes, const char* what) const {
  Fail(code, std::string("cannot allocate ") + what + " of " + Bytes(bytes) + " on '" + facts_.name + "' (it has " +
                 Bytes(facts_.global_bytes) + ", " + Bytes(facts_.max_allocation) + " at most in one piece)");
}

Device& GetDevice(int index) {
  const DeviceList& devices = Devices();
  if (index < 0 || static_cast<size_t>(index) >= devices.size()) {
    TVM_FFI_THROW(RuntimeError) << "OpenCL: no device opencl:" << index << "; this machine has "
                                << devices.size() << (devices.size() == 1 ? " device" : " devices");
  }
  return *devices[index];
}

size_t CountDevices() { return HasLibrary() ? Devices().size() : 0; }

}  // namespace opencl
}  // namespace tvmake
