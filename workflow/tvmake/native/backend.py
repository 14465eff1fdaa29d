"""Load the OpenCL runtime that TVM's wheel lacks.

TVM calls :func:`autoload` through its entry point group ``tvm.backends`` when it is imported, also in worker processes and
TVM's own servers. It only loads a library that is already built: it compiles nothing, opens no OpenCL driver, and does
nothing without a build. Code that needs OpenCL calls :func:`opencl_library`.
"""

import ctypes
from pathlib import Path

from tvmake.native.parts import find_built

DEVICE_API = "device_api.opencl"
"""The global function that exists if TVM has an OpenCL runtime, tvmake's or its own."""


def autoload() -> None:
    """Load the OpenCL runtime library if it is built for this TVM, and TVM has none yet."""
    if not has_opencl():
        library = find_built("opencl")
        if library is not None:
            load(library)


def opencl_library() -> Path:
    """The OpenCL runtime library, built if necessary, and loaded unless TVM has a runtime.

    Raises:
        MachineError: it must be compiled, and cannot be.
    """
    import tvm  # noqa: F401  TVM's libraries must be there before ours

    from tvmake.native.compile import build

    library = find_built("opencl") or build("opencl")
    if not has_opencl():
        load(library)
    return library


def has_opencl() -> bool:
    """Whether TVM, which must be loaded, has an OpenCL runtime; a driver or device may still be missing."""
    import tvm_ffi

    return tvm_ffi.get_global_func(DEVICE_API, allow_missing=True) is not None


def load(library: Path) -> None:
    """Load the library, which registers itself with TVM.

    Raises:
        OSError: the library does not match the TVM in this process.
    """
    ctypes.CDLL(str(library), ctypes.RTLD_LOCAL)
