"""What a block reads and writes, along which of its axes."""

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
    """A block that adds up products of two values: a convolution or a product of matrices."""

    block: Any
    operands: tuple[Any, ...]
    """The two loads."""

    @property
    def spatial(self) -> list[Any]:
        """The axes of the result."""
        return [axis for axis in self.block.iter_vars if axis.iter_type == SPATIAL]

    @property
    def reduced(self) -> list[Any]:
        """The axes that are summed over."""
        return [axis for axis in self.block.iter_vars if axis.iter_type == REDUCTION]

    @property
    def lane_axis(self) -> Any | None:
        """The axis along which results lie side by side; None where there is no such axis."""
        return innermost(self.block.body.indices, self.spatial)

    def bits(self) -> int:
        """Of a value of the result."""
        return bits(self.block.body.buffer)


def bits(typed: Any) -> int:
    """How many bits a value of a tensor takes."""
    return int("".join(filter(str.isdigit, dtype_name(typed).partition("x")[0])) or 8)


def size(buffer: Any) -> int:
    """Bits of a buffer; an estimate where a dimension is dynamic."""
    return math.prod(map(estimate_extent, buffer.shape)) * bits(buffer)


def contraction(block: Any) -> Contraction | None:
    """A block as a contraction; None for one that adds up something else."""
    store = block.body
    if not isinstance(store, tvm.tirx.BufferStore) or not isinstance(store.value, tvm.tirx.Add):
        return None
    if {axis.iter_type for axis in block.iter_vars} != {SPATIAL, REDUCTION}:
        return None
    loads = loads_in(store.value)
    operands = [load for load in loads if not load.source.same_as(store.buffer)]
    if len(loads) != len(operands) + 1 or len(operands) != 2:
        return None
    return Contraction(block, (operands[0], operands[1])) if _is_product(store) else None


def _is_product(store: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(
        store.value, [(tvm.tirx.Mul, lambda node: found.append(node)), (tvm.ir.Call, lambda node: found.append(node))]
    )
    return any(isinstance(node, tvm.tirx.Mul) and len(loads_in(node)) == 2 for node in found) and not any(
        isinstance(node, tvm.ir.Call) for node in found
    )


def loads_in(expression: Any) -> list[Any]:
    """The loads in an expression or a statement."""
    found: list[Any] = []
    tvm_ffi.structural_walk(expression, (tvm.ir.TensorLoad, found.append))
    return found


def uses(expressions: Sequence[Any], axis: Any) -> bool:
    """Whether an axis is in one of these indices."""
    found: list[Any] = []

    def note(variable: Any) -> None:
        if variable.same_as(axis.var):
            found.append(variable)

    for expression in expressions:
        tvm_ffi.structural_walk(expression, (tvm.ir.Var, note))
    return bool(found)


def step(index: Any, axis: Any) -> int | None:
    """By how much an index grows with an axis; None where that is no number."""
    if not uses([index], axis):
        return 0
    terms = tvm.sym.detect_linear_equation(index, [axis.var])
    return int(terms[0]) if len(terms) and isinstance(terms[0], tvm.tirx.IntImm) else None


def innermost(indices: Sequence[Any], axes: Sequence[Any]) -> Any | None:
    """The axis along which neighbours in memory lie; None where there is none."""
    if not indices:
        return None
    for axis in reversed(axes):
        if step(indices[-1], axis) == 1 and not uses(indices[:-1], axis):
            return axis
    return None


def is_contiguous(load: Any, axis: Any) -> bool:
    """Whether a load reads neighbours along an axis, or one value for all of it."""
    if not uses(load.indices, axis):
        return True
    return step(load.indices[-1], axis) == 1 and not uses(load.indices[:-1], axis)


def neighbours(load: Any, axis: Any) -> int | None:
    """How many neighbours along an axis share each value that is loaded: 8 for ``x[axis // 8]``; None for other loads."""
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
    """Extent of an axis; an estimate where it is dynamic."""
    return estimate_extent(axis.dom.extent)


def is_dynamic(axis: Any) -> bool:
    """Whether an axis has a dynamic dimension for its extent."""
    return not is_known(axis.dom.extent)


def is_fixed(block: Any) -> bool:
    """Whether all axes of a block have numbers for extents."""
    return not any(map(is_dynamic, block.iter_vars))


def fuse_outer(schedule: Any, loops: Sequence[Any]) -> Any:
    """Fuse loops, the outermost first, as far as TVM can divide the fused variable again: by no dynamic dimension."""
    taken: list[Any] = []
    for loop in loops:
        extents = [schedule.get(other).extent for other in taken]
        if not is_known(schedule.get(loop).extent) and not all(
            is_known(length) and int(length) == 1 for length in extents
        ):
            break
        taken.append(loop)
    return schedule.fuse(*taken)


def is_injective(block: Any) -> bool:
    """Whether a block computes each of its values by itself."""
    return all(axis.iter_type == SPATIAL for axis in block.iter_vars)
