#include "fingerprint.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "device.h"
#ifdef __ANDROID__
#include <sys/system_properties.h>
#endif

namespace tvmake {
namespace {

constexpr char kGovernor[] = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";

std::string FirstLine(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path) >> std::ws, line);
  return line;
}

// Logical cores this process may run on.
int64_t UsableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return sysconf(_SC_NPROCESSORS_ONLN);
}

#ifdef __ANDROID__
std::string Property(const char* name) {
  char value[PROP_VALUE_MAX] = {};
  __system_property_get(name, value);
  return value;
}
#endif

std::string Soc(const utsname& system) {
#ifdef __ANDROID__
  if (const std::string model = Property("ro.soc.model"); !model.empty()) {
    return Property("ro.soc.manufacturer") + " " + model;
  }
#endif
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    for (const char* name : {"model name", "Hardware", "Model"}) {
      const std::size_t sign = line.find(':');
      if (line.rfind(name, 0) == 0 && sign != std::string::npos) {
        const std::size_t begin = line.find_first_not_of(" \t", sign + 1);
        if (begin != std::string::npos) return line.substr(begin);
      }
    }
  }
  return system.machine;
}

std::string System(const utsname& system) {
#ifdef __ANDROID__
  if (const std::string build = Property("ro.build.fingerprint"); !build.empty()) return build;
#endif
  return std::string(system.sysname) + " " + system.release + " " + system.machine;
}

}  // namespace

Fingerprint TakeFingerprint(const std::string& kind, DLDevice device, int64_t threads) {
  utsname system;
  uname(&system);
  Fingerprint found;
  found.kind = kind;
  found.soc = Soc(system);
  found.os = System(system);
  found.runtime = std::string("apache-tvm ") + TVMAKE_TVM_VERSION;
  found.cores = UsableCores();
  found.memory_bytes = static_cast<int64_t>(sysconf(_SC_PAGE_SIZE)) * sysconf(_SC_PHYS_PAGES);
  found.details["threads"] = std::to_string(threads ? threads : found.cores);
  found.details["runner"] = "native";
  if (const std::string governor = FirstLine(kGovernor); !governor.empty()) found.details["governor"] = governor;
  if (device.device_type != kDLCPU) {
    std::string facts;
    for (const int attribute : {kDeviceName, kComputeVersion, kDriverVersion}) {
      const std::string fact = DeviceFact(device, attribute);
      if (!fact.empty()) facts += (facts.empty() ? "" : ", ") + fact;
    }
    found.details[kind] = facts.empty() ? "yes" : facts;
  }
  return found;
}

int64_t ResidentMemory() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGE_SIZE);
}

int64_t PeakMemory() {
  // getrusage would also tell of the program that this process was before it became this one.
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::stoll(line.substr(6)) * 1024;
  }
  return 0;
}

}  // namespace tvmake
