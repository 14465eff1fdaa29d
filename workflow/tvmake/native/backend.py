"""Give TVM the OpenCL runtime that its wheel lacks.

TVM calls :func:`autoload` from its entry point group ``tvm.backends`` while it is imported, in worker processes and
TVM's own servers too. That only loads a library that is already built: it compiles nothing, opens no OpenCL driver,
and does nothing where there is no build. Code that needs OpenCL calls :func:`opencl_library`.
"""

import ctypes
from pathlib import Path

from tvmake.native.parts import find_built

DEVICE_API = "device_api.opencl"
"""The global function that exists where TVM has an OpenCL runtime, ours or one of its own."""


def autoload() -> None:
    """Load the OpenCL runtime library if one is built for this TVM, and TVM has none yet."""
    if not has_opencl():
        library = find_built("opencl")
        if library is not None:
            load(library)


def opencl_library() -> Path:
    """The OpenCL runtime library, built if need be, and loaded unless TVM has a runtime already.

    Raises:
        MachineError: it has to be compiled, and cannot be.
    """
    import tvm  # noqa: F401  TVM's libraries must be there before ours

    from tvmake.native.compile import build

    library = find_built("opencl") or build("opencl")
    if not has_opencl():
        load(library)
    return library


def has_opencl() -> bool:
    """Whether TVM, which must be loaded, has an OpenCL runtime; not whether there is a driver or device."""
    import tvm_ffi

    return tvm_ffi.get_global_func(DEVICE_API, allow_missing=True) is not None


def load(library: Path) -> None:
    """Load the library; it registers itself with TVM.

    Raises:
        OSError: the library does not fit the TVM in this process.
    """
    ctypes.CDLL(str(library), ctypes.RTLD_LOCAL)
