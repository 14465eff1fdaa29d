"""Align arrays in shared memory for vectors.

Repair: `opencl-shared-alignment`.
"""

import re

ARRAY = re.compile(r"^(\s*__local \w+ \w+\[\d+\]);$", flags=re.MULTILINE)

BYTES = 16
"""Size of OpenCL's vectors of four 32-bit values, the largest that kernels move."""


def with_aligned_arrays(source: str) -> str:
    """OpenCL source whose arrays in shared memory are aligned to vectors."""
    return ARRAY.sub(rf"\1 __attribute__((aligned({BYTES})));", source)
