"""What TVM compiles CUDA's source with."""

import importlib.util
import os
import shutil

MODE = "TVM_CUDA_COMPILE_MODE"
"""TVM's variable: ``nvrtc``, its default, or ``nvcc``."""


def choose_compiler() -> str | None:
    """Have TVM compile with what is installed, unless MODE says with what.

    Returns:
        ``nvrtc`` (the package cuda-bindings), ``nvcc`` (from the CUDA toolkit), or None where there is nothing.
    """
    if MODE not in os.environ:
        if _has_nvrtc():
            os.environ[MODE] = "nvrtc"
        elif shutil.which("nvcc"):
            os.environ[MODE] = "nvcc"
    return os.environ.get(MODE)


def _has_nvrtc() -> bool:
    try:
        return importlib.util.find_spec("cuda.bindings") is not None
    except ModuleNotFoundError:
        return False
