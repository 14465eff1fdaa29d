"""The kinds of devices with a runtime on this machine, without importing TVM."""

from importlib.util import find_spec
from pathlib import Path

ALWAYS = ("cpu", "opencl")
"""TVM's own runtime, and the one that tvmake compiles."""


def has_runtime(kind: str) -> bool:
    """Whether kernels of a kind could run on this machine if it has the device and its driver.

    Args:
        kind: the runtime's name of the kind (``cpu``, ``opencl``, ``cuda``).
    """
    if kind in ALWAYS:
        return True
    spec = find_spec("tvm")
    package = Path(spec.origin).parent if spec and spec.origin else None
    return package is not None and any(package.glob(f"lib*/libtvm_runtime_{kind}.*"))
