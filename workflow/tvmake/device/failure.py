"""What a failed run means: the telling line of output, and what a user does about it."""

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
"""Characters of a line to keep."""

OPENCL = re.compile(r"OpenCL: (.+)")
KERNEL = re.compile(r"kernel '(\w+)'")
TAKES = re.compile(r"takes groups of up to (\d+)(?: for this kernel)?")
"""As tvmake's OpenCL runtime writes them (native/opencl)."""

NO_MEMORY = ("cannot allocate", "bad_alloc", "out of memory", "cudaErrorMemoryAllocation", "MemoryError")
SMALLER = "use a smaller batch (models.NAME.inputs) or another precision, or end what else uses the device's memory"

NO_LIBRARY = "load dynamic shared library"
"""How TVM begins when the system's loader refuses mod.so."""

LOADER = re.compile(NO_LIBRARY + r" (.+) \1: (.+)")
"""The library's path, twice, and why."""

NOEXEC = "failed to map segment from shared object"
"""How glibc says that a library's disk is mounted noexec."""

NEWER_GLIBC = re.compile(r"version `(GLIBC_[\d.]+)' not found")


@dataclass(frozen=True)
class Failure:
    """One line each."""

    problem: str
    remedy: str


def overran(where: str, device: str, limit_s: float, key: str = "timeout_s") -> DeviceError:
    """What to say of a run that its time limit ended.

    Args:
        where: the device, as messages name it.
        device: its name in the config.
        limit_s: the limit.
        key: the device's key with the limit.
    """
    less = "benchmark.repeat, benchmark.min_duration_s, or the dataset's limit"
    return DeviceError(
        where, f"the run did not end within {limit_s:g} s", f"raise devices.{device}.{key}, or lower {less}"
    )


def explain_failure(text: str, directory: Path | None = None) -> Failure:
    """Explain what a run wrote as it ended.

    Args:
        text: an exception's text, or all that a process wrote.
        directory: the unpacked package, whose manifest knows its kernels; None where it is not here.
    """
    manifest = _manifest(directory)
    target = manifest.target_name if manifest else "NAME"
    found = OPENCL.findall(text)
    line = found[-1] if found else _last_line(text)
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
    if found := KERNEL.search(line):
        return _other_kernel(found[1], line, target, manifest)
    if NO_LIBRARY in line:
        if NOEXEC in line:
            return "keep packages on a disk that is not mounted noexec: TVMAKE_HOME here, devices.NAME.directory on a device"
        newer = NEWER_GLIBC.search(line)
        return f"link for an older C library: targets.{target}.glibc, or `toolchain: zig`" if newer else REMEDY
    return "see all that it wrote, before this error or in the job's log; `tvmake doctor` tries the device by itself"


def _other_kernel(name: str, line: str, target: str, manifest: Manifest | None) -> str:
    """How to get another schedule of a kernel that a driver refuses."""
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
            return f"tune it on this device (targets.{target}.tuning.trials), which leaves out what the driver refuses"
    return (
        f"look at its source (build.dump: [kernels]); another processor of `tvmake targets` for '{target}', or the driver's"
        " newer version, may do"
    )


def kernel_of(name: str, kernels: Sequence[Kernel]) -> Kernel | None:
    """The kernel of a package that a function of the device's code belongs to.

    TVM calls the parts of ``fused_conv2d`` that run on a device ``fused_conv2d_kernel``, ``fused_conv2d_kernel_1`` …
    """
    plain = re.sub(r"_kernel(_\d+)?$", "", name)
    return next((one for one in kernels if one.name in (name, plain)), None)


def _manifest(directory: Path | None) -> Manifest | None:
    try:
        return read_manifest((directory / MANIFEST).read_bytes(), str(directory)) if directory else None
    except (OSError, InputError):
        return None


def _last_line(text: str) -> str:
    return re.sub(r"^[\w.]+(Error|Exception): ", "", last_line(text)) or "no message"


def _short(line: str) -> str:
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 2]} …"
