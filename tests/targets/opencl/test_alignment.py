"""Arrays in shared memory are aligned for integers."""

import re
from typing import Any

from tests.targets.adreno_texture.nets import executable, lowered, modules, op, tensor
from tvmake.targets.opencl.source import with_aligned_arrays

DATA, WEIGHT = tensor(1, 256, 14, 14, dtype="uint8"), tensor(256, 256, 3, 3, dtype="int8")


def conv(data: Any, weight: Any) -> Any:
    return op.nn.conv2d(data, weight, padding=1, out_dtype="int32")


def code() -> str:
    """OpenCL that sums bytes in integers, with several threads per sum."""
    name = "opencl-nvidia"
    built = executable(lowered(conv, DATA, WEIGHT, name=name), name).mod
    return "".join(part.inspect_source("") for part in modules(built) if part.kind == "opencl")


def test_every_shared_array_is_aligned():
    arrays = re.findall(r"__local \w+ \w+\[.*", code())
    assert len(arrays) > 1
    assert all(array.endswith(" __attribute__((aligned(16)));") for array in arrays)


def test_other_lines_stay_unchanged():
    source = "__kernel void k(__local int* a) {\n  uchar b[4];\n  __local uchar c[4];\n}\n"
    assert with_aligned_arrays(source) == source.replace("c[4];", "c[4] __attribute__((aligned(16)));")
