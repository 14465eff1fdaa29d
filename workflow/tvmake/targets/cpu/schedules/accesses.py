"""Analyse the accesses of a block: buffers, axes and strides."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.dimensions import estimate_extent, is_known
from tvmake.ir.expressions import dtype_name

SPATIAL, REDUCTION = 0, 2
"""``IterVar.iter_type``: kDataPar and kCommReduce, include/tvm/tirx/var.h."""


@dataclass(frozen=True)
class Contraction:
    """A block that sums products of two values: a convolution or a matmul."""

    block: Any
    operands: tuple[Any, ...]
    """The two loads."""

    @property
    def spatial(self) -> list[Any]:
        """The axes of the result."""
        return [axis for axis in self.block.iter_vars if axis.iter_type == SPATIAL]

    @property
    def reduced(self) -> list[Any]:
        """The axes of the sum."""
        return [axis for axis in self.block.iter_vars if axis.iter_type == REDUCTION]

    @property
    def lane_axis(self) -> Any | None:
        """The axis along which results are adjacent in memory, or None."""
        return innermost(self.block.body.indices, self.spatial)

    def bits(self) -> int:
        """Bits per result."""
        return bits(self.block.body.buffer)


def bits(typed: Any) -> int:
    """Bits per element of a tensor."""
    return int("".join(filter(str.isdigit, dtype_name(typed).partition("x")[0])) or 8)


def size(buffer: Any) -> int:
    """Bits of a buffer; an estimate if a dimension is dynamic."""
    return math.prod(map(estimate_extent, buffer.shape)) * bits(buffer)


def contraction(block: Any) -> Contraction | None:
    """The block as a contraction; None for other blocks."""
    store = block.body
    if not isinstance(store, tvm.tirx.BufferStore) or not isinstance(store.value, tvm.tirx.Add):
        return None
    if {axis.iter_type for axis in block.iter_vars} != {SPATIAL, REDUCTION}:
        return None
    loads = loads_in(store.value)
    operands = [load for load in loads if not load.source.same_as(store.buffer)]
    if len(loads) != len(operands) + 1 or len(operands) != 2:
        return None
    return Contraction(block, (operands[0], operands[1])) if _is_multiply_add(store) else None


def _is_multiply_add(store: Any) -> bool:
    nodes: list[Any] = []
    tvm_ffi.structural_walk(
        store.value, [(tvm.tirx.Mul, lambda node: nodes.append(node)), (tvm.ir.Call, lambda node: nodes.append(node))]
    )
    return any(isinstance(node, tvm.tirx.Mul) and len(loads_in(node)) == 2 for node in nodes) and not any(
        isinstance(node, tvm.ir.Call) for node in nodes
    )


def loads_in(expression: Any) -> list[Any]:
    nodes: list[Any] = []
    tvm_ffi.structural_walk(expression, (tvm.ir.TensorLoad, nodes.append))
    return nodes


def uses(expressions: Sequence[Any], axis: Any) -> bool:
    """Whether an axis occurs in one of the indices."""
    nodes: list[Any] = []

    def note(variable: Any) -> None:
        if variable.same_as(axis.var):
            nodes.append(variable)

    for expression in expressions:
        tvm_ffi.structural_walk(expression, (tvm.ir.Var, note))
    return bool(nodes)


def step(index: Any, axis: Any) -> int | None:
    """The increment of an index per step of an axis; None if it is not a constant."""
    if not uses([index], axis):
        return 0
    terms = tvm.sym.detect_linear_equation(index, [axis.var])
    return int(terms[0]) if len(terms) and isinstance(terms[0], tvm.tirx.IntImm) else None


def stride_bytes(load: Any, axis: Any) -> int | None:
    """The distance in memory of the values that a load reads at adjacent positions along an axis; None if it is not a constant."""
    steps = [step(index, axis) for index in load.indices]
    extents = list(load.source.shape)
    if any(increment is None for increment in steps) or not all(isinstance(size, tvm.tirx.IntImm) for size in extents):
        return None
    elements = 0
    for increment, size in zip(steps, extents, strict=True):
        elements = elements * int(size) + (increment or 0)
    return elements * bits(load.source) // 8


def innermost(indices: Sequence[Any], axes: Sequence[Any]) -> Any | None:
    """The axis that is contiguous in memory, or None."""
    if not indices:
        return None
    for axis in reversed(axes):
        if step(indices[-1], axis) == 1 and not uses(indices[:-1], axis):
            return axis
    return None


def is_contiguous(load: Any, axis: Any) -> bool:
    """Whether a load reads adjacent values along an axis, or the same value for all of it."""
    if not uses(load.indices, axis):
        return True
    return step(load.indices[-1], axis) == 1 and not uses(load.indices[:-1], axis)


def neighbours(load: Any, axis: Any) -> int | None:
    """How many neighbours along an axis share each loaded value: 8 for ``x[axis // 8]``; None for other loads."""
    whole: list[Any] = []
    divisions: list[Any] = []

    def note(division: Any) -> None:
        if (
            isinstance(division.a, tvm.ir.Var)
            and division.a.same_as(axis.var)
            and isinstance(division.b, tvm.tirx.IntImm)
        ):
            divisions.append(int(division.b))

    def note_variable(variable: Any) -> None:
        if variable.same_as(axis.var):
            whole.append(variable)

    for index in load.indices:
        tvm_ffi.structural_walk(index, [(tvm.tirx.FloorDiv, note), (tvm.ir.Var, note_variable)])
    return math.gcd(*divisions) if divisions and len(divisions) == len(whole) else None


def extent(axis: Any) -> int:
    """Extent of an axis; an estimate if it is dynamic."""
    return estimate_extent(axis.dom.extent)


def is_dynamic(axis: Any) -> bool:
    """Whether an axis has a dynamic extent."""
    return not is_known(axis.dom.extent)


def is_fixed(block: Any) -> bool:
    """Whether all axes of a block have static extents."""
    return not any(map(is_dynamic, block.iter_vars))


def fuse_outer(schedule: Any, loops: Sequence[Any]) -> Any:
    """Fuse loops from the outermost inwards, while TVM can divide the fused variable: by no dynamic dimension."""
    outer: list[Any] = []
    for loop in loops:
        extents = [schedule.get(other).extent for other in outer]
        if not is_known(schedule.get(loop).extent) and not all(
            is_known(length) and int(length) == 1 for length in extents
        ):
            break
        outer.append(loop)
    return schedule.fuse(*outer)


def is_injective(block: Any) -> bool:
    """Whether a block computes each of its values independently."""
    return all(axis.iter_type == SPATIAL for axis in block.iter_vars)
