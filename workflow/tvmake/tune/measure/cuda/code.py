"""Compile CUDA kernels to machine code at build time; TVM would compile their source when it is loaded.

A search loads candidates one by one while others wait, so compiling belongs in the builders. It needs NVIDIA's driver
library, which TVM's CUDA runtime is linked with, and NVRTC (the package cuda-bindings) or nvcc. Without them kernels stay
source, which is also correct.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tvm

from tvmake.device.local.cuda_compiler import choose_compiler
from tvmake.errors import DeviceError
from tvmake.native.runtime_libraries import load_runtime
from tvmake.targets.backends import backend_of

import tvm_ffi  # isort: skip

CREATE, COMPILE = "ffi.Module.create.cuda", "tvm_callback_cuda_compile"
"""TVM's global functions: create a module of (code, format, kernels …), and compile source to machine code."""

SOURCE = "cuda"
BINARY = {"nvrtc": "cubin", "nvcc": "fatbin"}
"""Formats of a module's code; the latter are those of TVM's compile function."""


def prepare_builders(target: "tvm.target.Target") -> None:
    """Load what :func:`machine_code` needs, before processes without a GPU are forked.

    NVRTC 13 opens the driver for each compilation, which takes 1.4 s while other processes use it. In these processes it finds
    no GPU.
    """
    if backend_of(target).emits_cuda and choose_compiler() == "nvrtc" and _has_driver():
        from cuda.bindings import nvrtc

        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
        nvrtc.nvrtcVersion()


@contextmanager
def machine_code(target: "tvm.target.Target") -> Iterator[None]:
    """Build kernels for a CUDA target in this block as machine code, if possible."""
    if not backend_of(target).emits_cuda or (mode := choose_compiler()) is None or not _has_driver():
        yield
        return
    create, compiled = tvm_ffi.get_global_func(CREATE), tvm_ffi.get_global_func(COMPILE)

    def create_compiled(code: Any, form: str, *rest: Any) -> Any:
        if form != SOURCE:
            return create(code, form, *rest)
        return create(compiled(bytes(code).decode()), BINARY[mode], *rest)

    tvm_ffi.register_global_func(CREATE, create_compiled, override=True)
    try:
        with target:
            yield
    finally:
        tvm_ffi.register_global_func(CREATE, create, override=True)


def _has_driver() -> bool:
    try:
        load_runtime("cuda")
    except DeviceError:
        return False
    return tvm_ffi.get_global_func(CREATE, allow_missing=True) is not None
