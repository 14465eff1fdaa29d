"""Give TVM the OpenCL runtime that its wheel lacks.

TVM calls :func:`autoload` from its entry point group ``tvm.backends`` while it is imported, in worker processes and
TVM's own servers too. That only loads a library that is already built: it compiles nothing, opens no OpenCL driver,
and does nothing where there is no build. Code that needs OpenCL calls :func:`opencl_library`.
"""

import ctypes
from pathlib import Path

from tvmake.native.parts import OPENCL, find_built

REGISTERED = "device_api.opencl"
"""The global function that tells whether TVM has an OpenCL runtime, ours or one of its own."""


def autoload() -> None:
    """Load the OpenCL runtime library if one is built for this TVM, and TVM has none yet."""
    if not has_opencl():
        built = find_built(OPENCL)
        if built is not None:
            load(built)


def opencl_library() -> Path:
    """The OpenCL runtime library, built if need be, and loaded unless TVM has a runtime already.

    Raises:
        MachineError: it has to be compiled, and cannot be.
    """
    from tvmake.native.compile import build
    from tvmake.quick_tvm import tvm  # noqa: F401  TVM's libraries must be there before ours

    built = find_built(OPENCL) or build(OPENCL)
    if not has_opencl():
        load(built)
    return built


def has_opencl() -> bool:
    """Whether TVM, which must be loaded, has an OpenCL runtime. Says nothing of drivers or devices."""
    import tvm_ffi

    return tvm_ffi.get_global_func(REGISTERED, allow_missing=True) is not None


def load(library: Path) -> None:
    """Load the library; it registers itself with TVM.

    Raises:
        OSError: the library does not fit the TVM in this process.
    """
    ctypes.CDLL(str(library), ctypes.RTLD_LOCAL)
