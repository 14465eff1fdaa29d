"""This machine's fingerprint as a device."""

import os
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from tvmake.artifact.fingerprint import Fingerprint

GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


def local_fingerprint(
    threads: int | None, kind: str = "cpu", gpu: Mapping[str, str] | None = None, cores: int | None = None
) -> Fingerprint:
    """This machine's identity.

    Args:
        gpu: the properties of that device if it is not the CPU.
        cores: the cores that this process may use; default: the current number, which is lower after TVM's runtime has bound its
            threads.
    """
    cores = cores or usable_cores()
    details = {"threads": str(threads or cores), "python": platform.python_version()}
    details["machine"] = platform.machine()
    if GOVERNOR.is_file():
        details["governor"] = GOVERNOR.read_text().strip()
    return Fingerprint(
        kind=kind,
        soc=_cpu_model(),
        cores=cores,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        os=f"{platform.system()} {platform.release()} {platform.machine()}",
        runtime=f"apache-tvm {metadata.version('apache-tvm')}",
        details={**details, **(gpu or {})},
    )


def usable_cores() -> int:
    """The number of logical cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith(("model name", "Hardware", "Model")):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
