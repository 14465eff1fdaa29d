"""Load the libraries that ``import tvm`` skips if only TVM's runtime is requested (``TVM_USE_RUNTIME_LIB=1``)."""

import tvm

from tvmake.errors import DeviceError
from tvmake.native.wheel_runtimes import has_runtime

from tvm.base import _LOADED_LIBS  # isort: skip
from tvm.libinfo import package_lib_paths  # isort: skip
from tvm_ffi.libinfo import load_lib_ctypes  # isort: skip

EXTRA = "tvm_runtime_extra"
"""Functions that fill and sort tensors, and contributed libraries."""


def load_runtime(kind: str) -> None:
    """Load the libraries for kernels of a kind of device. No driver is opened, so the process may still fork.

    Args:
        kind: the runtime's name of the kind (``cpu``, ``opencl``, ``cuda``).

    Raises:
        DeviceError: the installed TVM has no runtime for it, or its driver is not installed.
        MachineError: the OpenCL runtime must be compiled, and cannot be.
    """
    if kind == "opencl":
        from tvmake.native.backend import opencl_library

        opencl_library()
    _load(EXTRA)
    if not has_runtime(kind):
        remedy = "name a device with such a runtime (-d); `tvmake targets` lists what runs here"
        raise DeviceError("this machine", f"the installed TVM has no runtime for {kind} kernels", remedy)
    if kind not in ("cpu", "opencl"):
        try:
            _load(f"tvm_runtime_{kind}")
        except (OSError, RuntimeError) as error:
            why = str(error).strip().splitlines()[-1]
            raise DeviceError(
                "this machine", f"kernels for {kind} cannot run here: {why}", "see `tvmake doctor`"
            ) from error


def present(kind: str) -> "tvm.runtime.Device":
    """This machine's first device of a kind, with its libraries loaded. This opens the driver.

    Raises:
        DeviceError: the device does not exist.
    """
    load_runtime(kind)
    device = tvm.runtime.device(kind, 0)
    if not device.exist:
        remedy = "`tvmake doctor` lists this machine's; or give the target another device"
        raise DeviceError("this machine", f"there is no {kind} device", remedy)
    return device


def _load(name: str) -> None:
    if name not in _LOADED_LIBS:
        _LOADED_LIBS[name] = load_lib_ctypes("tvm", name, "RTLD_LOCAL", extra_lib_paths=package_lib_paths())
