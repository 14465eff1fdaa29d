// The kinds of devices that a package can run on.
#ifndef TVMAKE_DEVICE_H_
#define TVMAKE_DEVICE_H_

#include <dlpack/dlpack.h>

#include <string>

namespace tvmake {

// Load a library that adds something to the runtime: a device, or functions that kernels call.
//
// Throws Error if it cannot be loaded.
void LoadLibrary(const std::string& path);

// Device 0 of a kind ("cpu", "opencl" ...), with the runtime library for it if that lies beside this program.
//
// Throws Error if the kind or device does not exist.
DLDevice OpenDevice(const std::string& kind);

// What the runtime knows of a device, as text; empty when it knows nothing.
//
// attribute: a number of DeviceAttrKind (tvm/runtime/device_api.h).
std::string DeviceFact(DLDevice device, int attribute);
constexpr int kDeviceExists = 0, kComputeVersion = 4, kDeviceName = 5, kDriverVersion = 12;

// What of the packages that ran here Qualcomm's CLML computed, in words; empty when none of them has anything for it.
std::string ClmlSummary();

}  // namespace tvmake

#endif  // TVMAKE_DEVICE_H_
