"""What TVM compiles CUDA's source with."""

import importlib.util
import os
import re
import shutil
from functools import cache
from typing import Any

import tvm_ffi

MODE = "TVM_CUDA_COMPILE_MODE"
"""TVM's variable: ``nvrtc``, its default, or ``nvcc``."""

COMPILE = "tvm_callback_cuda_compile"
"""TVM's function from source to a binary."""

ERROR = re.compile(
    r"^\S.*?\(\d+\): (?:catastrophic )?error\b.*|^nvcc fatal .*|^ptxas .*(?:error|fatal) .*", re.MULTILINE
)
"""How NVRTC and nvcc say what is wrong, with file and line."""


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
    _report_first_errors()
    return os.environ.get(MODE)


def first_error(output: str) -> str | None:
    """The first error in the output of a compiler for CUDA, with file and line; None where there is none."""
    found = ERROR.search(output)
    return found[0] if found else None


@cache
def _report_first_errors() -> None:
    """Have a compilation that fails raise the compiler's first error: TVM's message has all the source, and NVRTC's ends with a NUL."""
    compiled = tvm_ffi.get_global_func(COMPILE, allow_missing=True)
    if compiled is None:
        return

    def compile_or_report(source: str) -> Any:
        try:
            return compiled(source)
        except RuntimeError as error:
            reason = first_error(str(error))
            if reason is None:
                raise
            raise RuntimeError(f"{os.environ.get(MODE, 'nvrtc')} compiles no kernel: {reason}") from None

    tvm_ffi.register_global_func(COMPILE, compile_or_report, override=True)


def _has_nvrtc() -> bool:
    try:
        return importlib.util.find_spec("cuda.bindings") is not None
    except ModuleNotFoundError:
        return False
