"""How far a scheduled kernel's output may be from the unscheduled one's, and the inputs that make this tell most.

Both compute the same sums in another order. When n terms are added up one after the other and roundings are
independent, the sum's error has a standard deviation of √(n/2)·u of its own size, u being the unit roundoff of the
type: each addition rounds a partial sum, and these grow like √k for terms of random sign (like k for positive ones,
which gives √(n/3)·u). This is the √n law of Higham and Mary, "A New Approach to Probabilistic Rounding Error Analysis",
SIAM J. Sci. Comput. 41 (2019). The bound is λ·Σ √n·u over the kernel's blocks, with n = 1 where nothing is added up,
as a share of the output's RMS. λ = 14 is fourteen such deviations of the difference of two kernels: of a million
outputs the worst is expected at five, and what follows a sum (exponentials, quotients) may enlarge its error.

For 16 bits that is a wide bound: 0.46 for 4,608 terms in float16. So their inputs are -1, 0 and 1: sums of these
and of their products are exact in any order, up to 2,048 in float16 and 256 in bfloat16, and count as n = 1.

TF32 rounds what is multiplied, once: sums of products are off by its unit roundoff of their size, however many there are.
"""

import math
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from tvmake.artifact.tensor_file import numpy_dtype
from tvmake.codegen.kernel_analysis import leaf_blocks, reduction_length
from tvmake.targets.cuda.propagate_tf32 import allows_tf32

LAMBDA = 14.0
"""Number of allowed standard deviations."""

UNIT_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""Half the distance from 1 to the next number."""

TF32_ROUNDOFF = 2.0**-11

OTHER_ROUNDOFF = 2.0**-3
"""Unit roundoff of 8-bit floats; the coarsest (e5m2) has two bits."""

COARSE = frozenset({"float16", "bfloat16"})
"""Dtypes whose random inputs are -1, 0 and 1."""

COPYING = frozenset({"Cast", "TensorLoad", "FloatImm", "Var", "Select", "if_then_else", "BufferType", "PrimType"})
"""Operations that leave values unchanged."""

ADDING = COPYING | {"Add", "Sub", "Mul", "Max", "Min"}
"""Operations that keep sums of small integers exact."""


def tolerance(function: "tvm.tirx.PrimFunc", positive: bool = False) -> float:
    """Return the largest expected error of a correct schedule, relative to the output's RMS; 0 if nothing is rounded."""
    coarse = [parameter for parameter in function.params if _dtype(parameter.ty) in COARSE and not positive]
    total = 0.0
    for block in leaf_blocks(function):
        written = [region.source for region in block.writes]
        read = [region.source for region in block.reads if not _among(region.source, written)]
        operations = _float_operations(block)
        is_coarse = bool(read) and all(_among(source, coarse) for source in read)
        length = 1 if is_coarse and operations <= ADDING else max(1, reduction_length(block))
        if is_coarse and operations <= COPYING:
            coarse += written
        elif rounded := [_dtype(buffer.ty) for buffer in written if _is_float(_dtype(buffer.ty))]:
            total += math.sqrt(length) * max(UNIT_ROUNDOFF.get(dtype, OTHER_ROUNDOFF) for dtype in rounded)
            total += TF32_ROUNDOFF if length > 1 and allows_tf32(function) else 0.0
    return LAMBDA * total


def random_inputs(function: "tvm.tirx.PrimFunc", seed: int, positive: bool = False) -> list[np.ndarray]:
    """Create random inputs for a kernel: normal for wide floats, small for narrow ones, integers in range.

    A 32- or 64-bit integer may be an index; it stays below the shortest axis that is longer than one.

    Args:
        positive: floats from 0.5 to 2, for kernels that are undefined for negative values (logarithms, variances).
    """
    random = np.random.default_rng(seed)
    shapes = [[int(extent) for extent in parameter.ty.shape] for parameter in function.params]
    top = min((extent for shape in shapes for extent in shape if extent > 1), default=1)
    return [
        _random(random, shape, _dtype(parameter.ty), top, positive)
        for parameter, shape in list(zip(function.params, shapes, strict=True))[: -len(outputs(function)) or None]
    ]


def outputs(function: "tvm.tirx.PrimFunc") -> list[Any]:
    """Return the arguments that a kernel writes: its last ones."""
    written: list[Any] = []

    def visit(block: Any) -> None:
        written.extend(region.source for region in block.writes)

    tvm_ffi.structural_walk(function.body, (tvm.s_tir.SBlock, visit))
    return [parameter for parameter in function.params if _among(parameter, written)]


def _random(random: np.random.Generator, shape: list[int], dtype: str, top: int, positive: bool) -> np.ndarray:
    kind = numpy_dtype(dtype)
    if _is_float(dtype):
        if positive:
            return random.uniform(0.5, 2.0, shape).astype(kind)
        wide = dtype in UNIT_ROUNDOFF and dtype not in COARSE
        return (random.standard_normal(shape) if wide else random.integers(-1, 2, shape)).astype(kind)
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(kind)
    if kind.itemsize == 1:
        return random.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, shape).astype(kind)
    return random.integers(0, top, shape).astype(kind)


def _float_operations(block: "tvm.s_tir.SBlock") -> set[str]:
    """Return the names of a block's operations on floats."""
    found: set[str] = set()

    def visit(node: Any) -> None:
        dtype = getattr(node, "dtype", None) or getattr(getattr(node, "ty", None), "dtype", None)
        if dtype is not None and _is_float(str(dtype)):
            name = getattr(getattr(node, "op", None), "name", None)
            found.add(str(name).rpartition(".")[2] if name else type(node).__name__)

    tvm_ffi.structural_walk(block.body, (object, visit))
    return found


def _among(buffer: Any, buffers: list[Any]) -> bool:
    return any(buffer.same_as(other) for other in buffers)


def _dtype(ty: Any) -> str:
    return str(ty.dtype)


def _is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))
