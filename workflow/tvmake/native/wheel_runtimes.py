"""Which kinds of devices there is a runtime for here, told without importing TVM."""

from importlib.util import find_spec
from pathlib import Path

ALWAYS = ("cpu", "opencl")
"""TVM itself, and the runtime that tvmake compiles."""


def has_runtime(kind: str) -> bool:
    """Whether kernels of a kind could run on this machine, given a device and its driver.

    Args:
        kind: the runtime's name of it (``cpu``, ``opencl``, ``cuda``).
    """
    if kind in ALWAYS:
        return True
    found = find_spec("tvm")
    package = Path(found.origin).parent if found and found.origin else None
    return package is not None and any(package.glob(f"lib*/libtvm_runtime_{kind}.*"))
