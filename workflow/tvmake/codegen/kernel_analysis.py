"""Analyse a kernel's work, shapes and blocks, and decide whether to tune it."""

import math
from typing import Any

import tvm
import tvm_ffi

from tvmake.targets.kernels.memory import GLOBAL, memory_scope

LITTLE_WORK = {False: 1 << 16, True: 1 << 12}
"""Operations below which a kernel is not tuned, by whether it reduces. A core does some 10⁹ unscheduled operations per
second, so these take about 65 and 4 µs. Starting threads costs more than the possible gain, and plain element-wise
loops are nearly optimal."""

CONVOLUTION = "conv2d_NCHWc"
"""Part of the block name of a convolution that MetaSchedule tiles (``targets.adreno_texture.convolution``)."""

REDUCTION = 2
"""``IterVar.iter_type`` of a reduction (``kCommReduce`` in tvm/tirx/var.h)."""


COMES_SCHEDULED = "it comes scheduled"
FIXED_LOOPS = "its loops are fixed"


def why_trivial(function: "tvm.tirx.PrimFunc") -> str | None:
    """Why a kernel with fixed shapes is not tuned; None if it is worth tuning."""
    if function.attrs and function.attrs.get("tirx.is_scheduled"):
        return COMES_SCHEDULED
    if (reason := is_reshape(function)) is not None:
        return reason
    blocks = leaf_blocks(function)
    if not blocks:
        return FIXED_LOOPS
    if (reason := too_little_work(function, work(function))) is not None:
        return reason
    if writes_textures(function) and not any(CONVOLUTION in str(block.name_hint) for block in blocks):
        return "it writes a texture, and only convolutions are tuned to write whole pixels"
    return None


def is_reshape(function: "tvm.tirx.PrimFunc") -> str | None:
    """Why a reshape is not tuned; None for other kernels."""
    try:
        found = bool(tvm.relax.analysis.has_reshape_pattern(function))
    except tvm.error.InternalError:  # Repair: `reshape-pattern-of-sums`.
        found = False
    return "it is a reshape, which costs nothing" if found else None


def too_little_work(function: "tvm.tirx.PrimFunc", operations: float) -> str | None:
    """Why a kernel with so few operations is not tuned; None if it has enough."""
    reduces = any(axis.iter_type == REDUCTION for block in leaf_blocks(function) for axis in block.iter_vars)
    return f"too little work ({operations:.0f} operations)" if operations < LITTLE_WORK[reduces] else None


def writes_textures(function: "tvm.tirx.PrimFunc") -> bool:
    """Whether one of a kernel's results is an image."""
    nodes: list[Any] = []
    tvm_ffi.structural_walk(function.body, (tvm.tirx.BufferStore, nodes.append))
    written = [store.buffer for store in nodes]
    return any(
        memory_scope(parameter) != GLOBAL and any(buffer.same_as(parameter) for buffer in written)
        for parameter in function.params
    )


def work(function: "tvm.tirx.PrimFunc") -> float:
    """The work of a call, in operations: arithmetic, or moved values if there are more of these."""
    return max(flops(function), sum(points(block) for block in leaf_blocks(function)))


def flops(function: "tvm.tirx.PrimFunc") -> float:
    """Arithmetic operations of one call, by TVM's estimate; moving data does not count.

    0 for dynamic shapes, and for loops that TVM cannot analyse.
    """
    if not has_fixed_shapes(function):
        return 0.0
    try:
        estimate = tvm.s_tir.analysis.estimate_tir_flops(tvm.IRModule({"main": function}))
    except (tvm.error.InternalError, ValueError, RuntimeError):
        return 0.0
    return max(0.0, float(estimate))


def has_fixed_shapes(function: "tvm.tirx.PrimFunc") -> bool:
    """Whether every argument is a buffer with static extents."""
    return all(
        hasattr(parameter.ty, "shape") and all(isinstance(extent, tvm.tirx.IntImm) for extent in parameter.ty.shape)
        for parameter in function.params
    )


def leaf_blocks(function: "tvm.tirx.PrimFunc") -> list["tvm.s_tir.SBlock"]:
    """The blocks that compute, in order, without the root and blocks without axes."""
    nodes: list[Any] = []
    tvm_ffi.structural_walk(function.body, (tvm.s_tir.SBlock, nodes.append))
    return [block for block in nodes if block.iter_vars]


def points(block: "tvm.s_tir.SBlock") -> int:
    """Number of executions of a block of an unscheduled kernel."""
    return math.prod(_extent(axis) for axis in block.iter_vars)


def reduction_length(block: "tvm.s_tir.SBlock") -> int:
    """Number of values that a block reduces to each result; 0 if it does not reduce."""
    axes = [_extent(axis) for axis in block.iter_vars if axis.iter_type == REDUCTION]
    return math.prod(axes) if axes else 0


def _extent(axis: Any) -> int:
    extent = axis.dom.extent
    return int(extent) if isinstance(extent, tvm.tirx.IntImm) else 1
