"""CUDA kernels are compiled with fast mathematics: powers of negative numbers are NaN."""

import inspect
import sys

from tvm.support import nvcc


def still_needed() -> bool:
    is_fast = "--use_fast_math" in inspect.getsource(nvcc)
    print(f"tvm.support.nvcc passes --use_fast_math: {is_fast}")
    return is_fast


if __name__ == "__main__":
    sys.exit(still_needed())
