"""Shared memory at places where any value may stand.

Repair: `opencl-shared-alignment`.
"""

import re

ARRAY = re.compile(r"^(\s*__local \w+ \w+\[\d+\]);$", flags=re.MULTILINE)

BYTES = 16
"""Of OpenCL's vectors of four numbers in 32 bits, which are the largest that kernels move."""


def with_aligned_arrays(source: str) -> str:
    """OpenCL source whose arrays in shared memory begin at multiples of a vector."""
    return ARRAY.sub(rf"\1 __attribute__((aligned({BYTES})));", source)
