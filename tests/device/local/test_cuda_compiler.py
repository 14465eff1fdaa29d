"""What is said of CUDA source that does not compile."""

import shutil
import subprocess
import sys

import pytest

from tests.patience import HANG_S
from tvmake.device.local.cuda_compiler import first_error

NVRTC = (
    "NVRTC compilation failed:\n"
    'tvm_kernels.cu(24): warning #177-D: variable "v" was declared but never referenced\n\n'
    'tvm_kernels.cu(31): error: identifier "hsinh" is undefined\n    y = hsinh(x);\n        ^\n\n'
    'tvm_kernels.cu(40): error: identifier "hcosh" is undefined\n\n'
    '2 errors detected in the compilation of "tvm_kernels.cu".\n\0'
)

PROGRAM = """
import tvm, tvm_ffi
from tvmake.device.local.cuda_compiler import choose_compiler
choose_compiler()
with tvm.target.Target({"kind": "cuda", "arch": "sm_90"}):
    tvm_ffi.get_global_func("tvm_callback_cuda_compile")("__global__ void k(float* x) { *x = hsinh(1); }")
"""


def test_the_first_error_is_named_with_its_line():
    assert first_error(NVRTC) == 'tvm_kernels.cu(31): error: identifier "hsinh" is undefined'


def test_other_output_has_none():
    assert first_error("Cannot find CUDA headers in /usr/local/cuda.") is None


@pytest.mark.skipif(not shutil.which("nvcc"), reason="the CUDA toolkit is not installed")
def test_a_compilation_that_fails_ends_with_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TVM_CUDA_COMPILE_MODE", "nvcc")
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=HANG_S)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("RuntimeError: nvcc cannot compile a kernel: ")
    assert last.endswith('(1): error: identifier "hsinh" is undefined')
