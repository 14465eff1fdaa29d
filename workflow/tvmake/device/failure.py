"""Explain failed runs: the line of output that names the cause, and a remedy."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tvmake.artifact.manifest import Kernel, Manifest
from tvmake.artifact.package import MANIFEST, read_manifest
from tvmake.device.architecture import REMEDY
from tvmake.errors import DeviceError, InputError
from tvmake.process.supervised import last_line

LONGEST = 500
"""Maximum length of a line."""

MOST_FEATURES = 5
"""Instruction sets that a message names."""

OPENCL = re.compile(r"OpenCL: (.+)")
KERNEL = re.compile(r"kernel '(\w+)'")
TAKES = re.compile(r"takes groups of up to (\d+)(?: for this kernel)?")
"""Messages of tvmake's OpenCL runtime (native/opencl)."""

NO_MEMORY = ("cannot allocate", "bad_alloc", "out of memory", "cudaErrorMemoryAllocation", "MemoryError")
SMALLER = "use a smaller batch (models.NAME.inputs) or another precision, or end what else uses the device's memory"

NO_LIBRARY = "load dynamic shared library"
"""The beginning of TVM's error if the system's loader refuses mod.so."""

LOADER = re.compile(NO_LIBRARY + r" (.+) \1: (.+)")
"""The library's path, twice, and the loader's reason."""

NOEXEC = "failed to map segment from shared object"
"""glibc's error for a library on a disk that is mounted noexec."""

NEWER_GLIBC = re.compile(r"version `(GLIBC_[\d.]+)' not found")


@dataclass(frozen=True)
class Failure:
    """Problem and remedy, one line each."""

    problem: str
    remedy: str


def overran(where: str, device: str, limit_s: float, key: str = "timeout_s") -> DeviceError:
    """The error for a run that exceeded its time limit.

    Args:
        device: its name in the config.
        key: the device's config key of the limit.
    """
    less = "benchmark.repeat, benchmark.min_duration_s, or the dataset's limit"
    return DeviceError(
        where, f"the run did not end within {limit_s:g} s", f"raise devices.{device}.{key}, or lower {less}"
    )


def crash_remedy(signal: str, directory: Path | None, info: str = "") -> str:
    """The remedy for a run that a signal ended.

    Args:
        signal: its name, such as SIGILL.
        directory: the unpacked package; None if it is not on this machine.
        info: contents of the device's /proc/cpuinfo; empty if they are not known.
    """
    if signal == "SIGKILL":
        return "out of memory?"
    manifest = _manifest(directory)
    if signal != "SIGILL" or manifest is None:
        return "the generated code crashed: build with build.dump to look at it"
    host = manifest.target if manifest.target.get("kind") == "llvm" else manifest.target.get("host", {})
    cpu = str(host.get("mcpu", ""))
    lacks = "lacks instructions of the package's target"
    if info and cpu and (missing := _missing_features(cpu, info)):
        named = ", ".join(missing[:MOST_FEATURES]) + (" …" if len(missing) > MOST_FEATURES else "")
        lacks = f"lacks {named} of {cpu}"
    return f"the processor {lacks}: build for the device's own (targets.{manifest.target_name}.mcpu; `-t native` is this machine's)"


def _missing_features(cpu: str, info: str) -> list[str]:
    from tvmake.targets.cpu.native import hidden_features

    return hidden_features(cpu, info)


def explain_failure(text: str, directory: Path | None = None) -> Failure:
    """Explain the output of a failed run.

    Args:
        text: an exception's text, or all output of a process.
        directory: the unpacked package, whose manifest lists the kernels; None if it is not on this machine.
    """
    manifest = _manifest(directory)
    target = manifest.target_name if manifest else "NAME"
    messages = OPENCL.findall(text)
    line = messages[-1] if messages else _last_line(text)
    if line.endswith("bad_alloc"):
        line = "not enough memory to run it (bad_alloc)"
    refused = LOADER.search(line)
    problem = f"{Path(refused[1]).name} cannot be loaded: {refused[2]}" if refused else line
    return Failure(_short(problem), _remedy(line, target, manifest))


def _remedy(line: str, target: str, manifest: Manifest | None) -> str:
    if "computes in float16" in line:
        return f"leave float16 out for this target: variants.exclude, or models.NAME.precisions (target '{target}')"
    if "has no images" in line or "a texture of width" in line:
        return (
            f"keep tensors in buffers: a '-buffer' target, or lower targets.{target}.attributes.texture_spatial_limit and"
            " texture_depth_limit to what the device takes"
        )
    if any(sign in line for sign in NO_MEMORY):
        return SMALLER
    if match := KERNEL.search(line):
        return _other_kernel(match[1], line, target, manifest)
    if NO_LIBRARY in line:
        if NOEXEC in line:
            return "keep packages on a disk that is not mounted noexec: TVMAKE_HOME here, devices.NAME.directory on a device"
        newer = NEWER_GLIBC.search(line)
        return f"link for an older C library: targets.{target}.glibc, or `toolchain: zig`" if newer else REMEDY
    return "see all that it wrote, before this error or in the job's log; `tvmake doctor` tries the device by itself"


def _other_kernel(name: str, line: str, target: str, manifest: Manifest | None) -> str:
    """The remedy for a kernel that a driver refuses: another schedule."""
    kernel = kernel_of(name, manifest.kernels) if manifest else None
    if kernel is not None and kernel.is_tuned:
        return (
            f"build it without its record: add {kernel.name} to targets.{target}.tuning.untuned, and run the same command"
            " again"
        )
    if "of local memory, and" in line:
        return f"have schedules use less: lower targets.{target}.attributes.max_shared_memory_per_block"
    if most := TAKES.search(line):
        if int((manifest.target if manifest else {}).get("max_num_threads", 0)) > int(most[1]):
            return f"have schedules use fewer threads: set targets.{target}.attributes.max_num_threads to {most[1]} or less"
        if kernel is None or manifest is None or kernel.name not in manifest.coverage.not_tunable:
            return f"tune it on this device (targets.{target}.tuning.trials), which discards candidates that the driver refuses"
    return (
        f"look at its source (build.dump: [kernels]); try another processor of `tvmake targets` for '{target}', or a"
        " newer driver"
    )


def kernel_of(name: str, kernels: Sequence[Kernel]) -> Kernel | None:
    """The kernel of a package that has a given function of the device code.

    TVM names the device functions of ``fused_conv2d`` ``fused_conv2d_kernel``, ``fused_conv2d_kernel_1`` …
    """
    plain = re.sub(r"_kernel(_\d+)?$", "", name)
    return next((kernel for kernel in kernels if kernel.name in (name, plain)), None)


def _manifest(directory: Path | None) -> Manifest | None:
    try:
        return read_manifest((directory / MANIFEST).read_bytes(), str(directory)) if directory else None
    except (OSError, InputError):
        return None


def _last_line(text: str) -> str:
    return re.sub(r"^[\w.]+(Error|Exception): ", "", last_line(text)) or "no message"


def _short(line: str) -> str:
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 2]} …"
