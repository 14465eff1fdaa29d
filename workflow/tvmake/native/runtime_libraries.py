"""What ``import tvm`` leaves out when only TVM's runtime is asked for (``TVM_USE_RUNTIME_LIB=1``)."""

import tvm

from tvmake.errors import DeviceError
from tvmake.native.wheel_runtimes import has_runtime

from tvm.base import _LOADED_LIBS  # isort: skip
from tvm.libinfo import package_lib_paths  # isort: skip
from tvm_ffi.libinfo import load_lib_ctypes  # isort: skip

EXTRA = "tvm_runtime_extra"
"""Functions that fill and sort tensors, and those of libraries."""


def load_runtime(kind: str) -> None:
    """Load the libraries that kernels of a kind of device need. It opens no driver, so that processes may still fork.

    Args:
        kind: the runtime's name of it (``cpu``, ``opencl``, ``cuda``).

    Raises:
        DeviceError: TVM as installed has none for it, or the driver that it needs is not installed.
        MachineError: the OpenCL runtime has to be compiled, and cannot be.
    """
    if kind == "opencl":
        from tvmake.native.backend import opencl_library

        opencl_library()
    _load(EXTRA)
    if not has_runtime(kind):
        raise DeviceError(
            "this machine",
            f"TVM as installed has no runtime for {kind} kernels",
            "name a device that has one, with -d; `tvmake targets` says what runs here",
        )
    if kind not in ("cpu", "opencl"):
        try:
            _load(f"tvm_runtime_{kind}")
        except (OSError, RuntimeError) as error:
            why = str(error).strip().splitlines()[-1]
            raise DeviceError(
                "this machine", f"kernels for {kind} cannot be run here: {why}", "see `tvmake doctor`"
            ) from error


def present(kind: str) -> "tvm.runtime.Device":
    """This machine's first device of a kind, with its libraries loaded. It opens the driver.

    Raises:
        DeviceError: there is none.
    """
    load_runtime(kind)
    device = tvm.runtime.device(kind, 0)
    if not device.exist:
        raise DeviceError(
            "this machine",
            f"there is no {kind} device",
            "`tvmake doctor` lists those that there are; or give the target another device",
        )
    return device


def _load(name: str) -> None:
    if name not in _LOADED_LIBS:
        _LOADED_LIBS[name] = load_lib_ctypes("tvm", name, "RTLD_LOCAL", extra_lib_paths=package_lib_paths())
