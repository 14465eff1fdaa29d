"""Shared memory at places where any value may stand.

TVM 0.27 keeps values of several types in one array, one after the other, and reads integers by ``(__local int*)`` from an array of bytes, which
a driver may place anywhere: NVIDIA's faults on some kernels of 8-bit networks. Its CUDA source says how arrays are aligned; here OpenCL's does.
Remove when tests/targets/opencl/test_alignment.py::test_tvm_still_says_nothing_of_alignment fails.
"""

import re

ARRAY = re.compile(r"^(\s*__local \w+ \w+\[\d+\]);$", flags=re.MULTILINE)

BYTES = 16
"""Of OpenCL's vectors of four numbers in 32 bits, which are the largest that kernels move."""


def with_aligned_arrays(source: str) -> str:
    """OpenCL source whose arrays in shared memory begin at multiples of a vector."""
    return ARRAY.sub(rf"\1 __attribute__((aligned({BYTES})));", source)
