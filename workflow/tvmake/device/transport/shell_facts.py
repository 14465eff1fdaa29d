"""A device's report to a shell: processor, memory, system; on Android, SoC, GPU and driver too."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.config.device import ShellDeviceConfig
from tvmake.device.transport.shell import QUICK_S, Shell, Unreachable, command_error
from tvmake.errors import DeviceError
from tvmake.process.supervised import last_line

LINUX = r"""
echo machine=$(uname -m)
echo kernel=$(uname -s) $(uname -r)
echo cores=$(nproc 2>/dev/null || grep -c ^processor /proc/cpuinfo)
echo memory_kib=$(sed -n 's/^MemTotal: *\([0-9]*\).*/\1/p' /proc/meminfo)
echo os=$(. /etc/os-release 2>/dev/null; echo $PRETTY_NAME)
echo model=$(tr -d '\000' 2>/dev/null </proc/device-tree/model)
echo cpu=$(sed -n -e 's/^model name[^:]*: *//p' -e 's/^Hardware[^:]*: *//p' /proc/cpuinfo | head -n 1)
echo governor=$(cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor 2>/dev/null)
echo root=$(test "$(id -u)" = 0 && echo yes || { command -v su >/dev/null && echo su || echo no; })
"""

ANDROID = r"""
echo soc=$(getprop ro.soc.manufacturer) $(getprop ro.soc.model)
echo platform=$(getprop ro.board.platform)
echo product=$(getprop ro.product.manufacturer) $(getprop ro.product.model)
echo build=$(getprop ro.build.fingerprint)
echo android=$(getprop ro.build.version.release)
echo gpu_model=$(cat /sys/class/kgsl/kgsl-3d0/gpu_model 2>/dev/null)
echo gles=$(dumpsys SurfaceFlinger 2>/dev/null | grep -m 1 GLES:)
"""

MARK = "tvmake-begins"

ROOTED = {"yes": "yes", "su": "with su", "no": "no"}


@dataclass(frozen=True)
class Facts:
    """A device's report, by name, and its directory for files."""

    values: Mapping[str, str]
    directory: str
    """An existing absolute path on the device."""
    free_bytes: int | None
    """Free space in bytes; None if unknown."""

    @property
    def machine(self) -> str:
        """``uname -m``."""
        return self.values.get("machine", "")

    def fingerprint(self, config: ShellDeviceConfig, runtime: str = "not told") -> Fingerprint:
        """The device's identity. Equal devices have equal fingerprints: no addresses, no serial numbers."""
        values = self.values
        cores = int(values.get("cores") or 1)
        details = {"threads": str(config.threads or cores), "machine": self.machine}
        details["root"] = ROOTED.get(values.get("root", ""), "not told")
        details |= {name: values[name] for name in ("governor", "kernel", "product", "build") if values.get(name)}
        gpu, driver = _gpu(values)
        details |= {name: value for name, value in (("gpu", gpu), ("gpu_driver", driver)) if value}
        android = f"Android {values['android']}" if values.get("android") else ""
        return Fingerprint(
            kind="cpu",
            soc=config.soc
            or values.get("soc")
            or values.get("platform")
            or values.get("model")
            or values.get("cpu")
            or self.machine,
            cores=cores,
            memory_bytes=int(values.get("memory_kib") or 0) * 1024,
            os=android or values.get("os") or values.get("kernel", "not told"),
            runtime=runtime,
            details=details,
        )


def facts(shell: Shell, directory: str, is_android: bool) -> Facts:
    """Query a device's properties, and create its directory for files.

    Raises:
        DeviceError: the directory cannot be created.
        Unreachable: the device was lost.
    """
    finished = shell.run(f"echo {MARK} && mkdir -p {directory} && cd {directory} && pwd && (df -Pk . || true)", QUICK_S)
    first, *lines = [line.strip() for line in finished.output.splitlines()] or [""]
    if first != MARK and MARK in lines:
        problem = f"its shell prints additional output ('{first[:60]}')"
        raise DeviceError(shell.where, problem, "make its .bashrc and .profile print nothing in non-interactive shells")
    if first != MARK:
        why = last_line(finished.errors or finished.output)
        problem = f"it runs no commands{f' ({why})' if why else ''}"
        raise Unreachable(shell.where, problem, "give its user a login shell, with `sh` on its PATH")
    if finished.code or not lines or not lines[0].startswith("/"):
        raise command_error(shell.where, f"making {directory}", finished.errors or finished.output)
    path = lines[0]
    free = last_line(finished.output).split()
    values = read(shell.run(LINUX + (ANDROID if is_android else ""), QUICK_S).output)
    if not values.get("machine"):
        raise DeviceError(
            shell.where, "its processor is unknown (`uname -m` fails)", "install coreutils or busybox there"
        )
    return Facts(values, path, int(free[3]) * 1024 if len(free) > 3 and free[3].isdigit() else None)


def read(output: str) -> dict[str, str]:
    """Parse ``name=value`` lines; those without a value are skipped."""
    pairs = (line.partition("=") for line in output.splitlines())
    return {name: " ".join(value.split()) for name, _, value in pairs if value.strip()}


def _gpu(values: Mapping[str, str]) -> tuple[str, str]:
    """The GPU and its driver, from SurfaceFlinger: ``GLES: Qualcomm, Adreno (TM) 740, OpenGL ES 3.2 V@0676.42 (…)``."""
    parts = [part.strip() for part in values.get("gles", "").removeprefix("GLES:").split(",")]
    gpu = parts[1] if len(parts) > 1 else values.get("gpu_model", "")
    version = re.search(r"V@[\w.]+|v\d\.r\w+|\d{3,}\.\d+", values.get("gles", ""))
    return gpu, version[0] if version else ""
