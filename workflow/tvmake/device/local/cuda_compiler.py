"""The compiler that TVM uses for CUDA sources."""

import importlib.util
import os
import re
import shutil
from functools import cache
from typing import Any

import tvm_ffi

MODE = "TVM_CUDA_COMPILE_MODE"
"""TVM's variable: ``nvrtc`` (default) or ``nvcc``."""

COMPILE = "tvm_callback_cuda_compile"
"""TVM's function that compiles a source to a binary."""

ERROR = re.compile(
    r"^\S.*?\(\d+\): (?:catastrophic )?error\b.*|^nvcc fatal .*|^ptxas .*(?:error|fatal) .*", re.MULTILINE
)
"""Errors of NVRTC and nvcc, with file and line."""


def choose_compiler() -> str | None:
    """Make TVM use the installed compiler, unless MODE selects one.

    Returns:
        ``nvrtc`` (the package cuda-bindings), ``nvcc`` (the CUDA toolkit), or None without either.
    """
    if MODE not in os.environ:
        if _has_nvrtc():
            os.environ[MODE] = "nvrtc"
        elif shutil.which("nvcc"):
            os.environ[MODE] = "nvcc"
    _report_first_errors()
    return os.environ.get(MODE)


def first_error(output: str) -> str | None:
    """The first error in a CUDA compiler's output, with file and line; None without errors."""
    match = ERROR.search(output)
    return match[0] if match else None


@cache
def _report_first_errors() -> None:
    """Raise the compiler's first error: TVM's message has the whole source, and NVRTC's ends with a NUL."""
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
            raise RuntimeError(f"{os.environ.get(MODE, 'nvrtc')} cannot compile a kernel: {reason}") from None

    tvm_ffi.register_global_func(COMPILE, compile_or_report, override=True)


def _has_nvrtc() -> bool:
    try:
        return importlib.util.find_spec("cuda.bindings") is not None
    except ModuleNotFoundError:
        return False
