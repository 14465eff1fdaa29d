"""Convert a kernel's contraction to a batched matmul: batch, rows, columns and sum, whatever axes it has.

A convolution is a matmul of its weights and the windows of its input (im2col). The windows are assembled when an
operand is read, so memory holds no copy of them (Chetlur et al., "cuDNN: efficient primitives for deep learning",
2014).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import tvm

from tvmake.ir.dimensions import is_known
from tvmake.targets.cpu.schedules.accesses import Contraction, bits, contraction, extent, is_dynamic, uses
from tvmake.targets.gpu.blocks import read_reduction, single_reduction

GATHERED = 4
"""Maximum number of values that a thread gathers at once. Repair: `cuda-half-gathers`."""


@dataclass(frozen=True)
class Axes:
    """The axes of a contraction by role."""

    batch: list[Any]
    rows: list[Any]
    columns: list[Any]
    """The axes along which results are contiguous in memory, and the others of the same operand."""
    sums: list[Any]
    window_axes: int
    """Number of leading sum axes that are positions in a kernel window."""
    row_operand: int
    """Index of the operand with the rows."""


@dataclass(frozen=True)
class Product:
    """A kernel with one matmul or convolution, and element-wise blocks around it."""

    schedule: "tvm.s_tir.Schedule"
    block: Any
    """The block of the sum."""
    contraction: Contraction
    axes: Axes

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Number of matmuls, their rows and columns, and the terms of a sum."""
        axes = self.axes
        batch, rows, columns, length = (
            math.prod(map(extent, group)) for group in (axes.batch, axes.rows, axes.columns, axes.sums)
        )
        return batch, rows, columns, length

    @property
    def operand_bytes(self) -> list[int]:
        """Bytes per value of each operand; 0 below a byte."""
        return [bits(load.source) // 8 for load in self.contraction.operands]

    @property
    def result_bytes(self) -> int:
        """Bytes per result."""
        return bits(self.contraction.block.body.buffer) // 8

    @property
    def is_windowed(self) -> bool:
        """Whether indices of an operand combine several axes, as in kernel windows larger than 1×1."""
        every = [*self.axes.rows, *self.axes.columns, *self.axes.sums]
        return any(
            sum(uses([index], axis) for axis in every) > 1
            for load in self.contraction.operands
            for index in load.indices
        )

    @property
    def run(self) -> int:
        """Number of consecutive terms of a sum at one position of the kernel window."""
        return math.prod(map(extent, self.axes.sums[self.axes.window_axes :]))

    @property
    def sides(self) -> tuple[Any, Any]:
        """The loads of the operand with the rows, and of the one with the columns."""
        operands = self.contraction.operands
        return operands[self.axes.row_operand], operands[1 - self.axes.row_operand]

    def along_sum(self) -> tuple[bool, bool]:
        """Whether the sum is contiguous in memory, in the operand with the rows and in the one with the columns."""
        rows, columns = self.sides
        return self._is_along_sum(rows), self._is_along_sum(columns)

    def operand_lanes(self, sums_last: tuple[bool, bool], most: int) -> tuple[int, int]:
        """Values of each operand that a thread moves at once, along the sum or along the operand's side.

        Args:
            sums_last: as for :func:`as_product`.
            most: the maximum.
        """
        axes, schedule = self.axes, self.schedule
        lasts = (axes.sums if sums_last[0] else axes.rows, axes.sums if sums_last[1] else axes.columns)
        computed = [
            write.source for block in schedule.get_producers(self.block) for write in schedule.get(block).writes
        ]
        rows, columns = (
            math.gcd(
                _neighbours(load.source.shape, load.indices, last),
                # Inlined computations may read from anywhere.
                min(most, GATHERED) if any(load.source.same_as(source) for source in computed) else most,
            )
            for load, last in zip(self.sides, lasts, strict=True)
        )
        return rows, columns

    def result_lanes(self, most: int) -> int:
        """Number of results that a thread writes at once, along the columns; at most ``most``."""
        store = self.contraction.block.body
        adjacent = _neighbours(store.buffer.shape, store.indices, self.axes.columns)
        return math.gcd(adjacent, min(most, GATHERED) if self.schedule.get_consumers(self.block) else most)

    def _is_along_sum(self, load: Any) -> bool:
        axes = self.axes
        sides = [*axes.batch, *axes.rows, *axes.columns]
        last = next(
            index for index in reversed(load.indices) if any(uses([index], axis) for axis in (*sides, *axes.sums))
        )
        return not any(uses([last], axis) for axis in sides)


def product_of(func: Any) -> Product | None:
    """The matmul of a kernel; None for other kernels."""
    return _product(single_reduction(func))


@lru_cache(maxsize=2)
def read_product(func: Any) -> Product | None:
    """Like :func:`product_of`, for several rules; the product's schedule must not be changed."""
    return _product(read_reduction(func))


def _product(match: tuple["tvm.s_tir.Schedule", Any] | None) -> Product | None:
    if match is None:
        return None
    schedule, block = match
    contracted = contraction(schedule.get(block))
    axes = _axes(contracted) if contracted is not None else None
    if contracted is None or axes is None:
        return None
    product = Product(schedule, block, contracted, axes)
    return product if all(product.operand_bytes) and product.result_bytes else None


def as_product(
    product: Product, multiples: tuple[int, int, int], sums_last: tuple[bool, bool] = (False, False)
) -> tuple[int, int]:
    """Reduce the block to four axes: batch, rows, columns and sum.

    Args:
        product: a kernel's matmul, whose schedule is changed.
        multiples: rows, columns and sum are padded to these, with zeros.
        sums_last: whether the sum (else the side) is the last axis of the operand with the rows, and with the columns.

    Returns:
        indices of the block's reads with the rows and with the columns.

    Raises:
        ValueError: both operands are the same tensor.
        ScheduleError: the kernel cannot be converted.
    """
    schedule, block, axes, contracted = product.schedule, product.block, product.axes, product.contraction
    reads = [
        next(number for number, region in enumerate(schedule.get(block).reads) if region.source.same_as(load.source))
        for load in contracted.operands
    ]
    if sorted(reads) != [0, 1]:
        raise ValueError("an operand that is read twice")
    copies = [schedule.reindex(block, ("read", number)) for number in (0, 1)]
    result = schedule.reindex(block, ("write", 0))
    groups = {"batch": axes.batch, "rows": axes.rows, "columns": axes.columns, "sums": axes.sums}
    # The copies are indexed by the block's axes, except for some of extent 1.
    rewritten = schedule.get(block)
    original_axes = list(zip(rewritten.iter_vars, contracted.block.iter_vars, strict=True))
    for load, number in zip(contracted.operands, reads, strict=True):
        has_rows = load is contracted.operands[axes.row_operand]
        side = "rows" if has_rows else "columns"
        order = ("batch", side, "sums") if sums_last[0 if has_rows else 1] else ("batch", "sums", side)
        used = _axes_of(rewritten.reads[number], original_axes)
        schedule.transform_layout(copies[number], ("write", 0), _fusion_map(used, [groups[name] for name in order]))
    written = _axes_of(rewritten.writes[0], original_axes)
    schedule.transform_layout(
        result, ("read", 0), _fusion_map(written, [groups[name] for name in ("batch", "rows", "columns")])
    )
    schedule.transform_block_layout(block, _fusion_map(list(contracted.block.iter_vars), list(groups.values())))
    schedule.pad_einsum(block, [1, *multiples])
    return reads[axes.row_operand], reads[1 - axes.row_operand]


def _axes(contracted: Contraction) -> Axes | None:
    """The axes; None if an axis occurs in no operand, or a sum's axis in only one."""
    batch: list[Any] = []
    sides: tuple[list[Any], list[Any]] = ([], [])
    for axis in contracted.spatial:
        used_by = [uses(load.indices, axis) for load in contracted.operands]
        if extent(axis) == 1:
            continue
        if all(used_by):
            batch.append(axis)
        elif any(used_by):
            sides[used_by.index(True)].append(axis)
        else:
            return None
    if not all(
        extent(axis) == 1 or all(uses(load.indices, axis) for load in contracted.operands)
        for axis in contracted.reduced
    ):
        return None
    written = [index for index in contracted.block.body.indices if not isinstance(index, tvm.tirx.IntImm)]
    last = [
        axis for axis in contracted.spatial if extent(axis) > 1 and any(index.same_as(axis.var) for index in written)
    ]
    if len(last) != len([axis for axis in contracted.spatial if extent(axis) > 1]) or not last or not all(sides):
        return None
    innermost = next(axis for index in reversed(written) for axis in last if index.same_as(axis.var))
    column_operand = next((side for side in (0, 1) if any(axis.var.same_as(innermost.var) for axis in sides[side])), 1)
    # Windows outside, channels inside: the position in the window is then constant within a step.
    sums = [axis for axis in contracted.reduced if extent(axis) > 1]
    plain = [
        axis for axis in sums if any(index.same_as(axis.var) for index in contracted.operands[column_operand].indices)
    ]
    plain = [
        axis
        for axis in plain
        if any(index.same_as(axis.var) for index in contracted.operands[1 - column_operand].indices)
    ]
    windows = [axis for axis in sums if not any(axis.var.same_as(other.var) for other in plain)]
    return Axes(
        batch, sides[1 - column_operand], sides[column_operand], [*windows, *plain], len(windows), 1 - column_operand
    )


def _axes_of(region: Any, original_axes: Sequence[tuple[Any, Any]]) -> list[Any]:
    """The original axes that index a region of single elements."""
    return [next(before for axis, before in original_axes if axis.var.same_as(index.min)) for index in region.region]


def _fusion_map(axes: list[Any], groups: list[list[Any]]) -> Any:
    """An index map from these axes to one index for each group."""
    variables = [tvm.tirx.Var(f"i{number}", axis.var.ty) for number, axis in enumerate(axes)]
    indices = []
    for group in groups:
        index = tvm.tirx.const(0, axes[0].var.ty.dtype)
        for axis in group:
            (variable,) = [
                new for new, original_axes in zip(variables, axes, strict=True) if original_axes.var.same_as(axis.var)
            ]
            index = index * _length(axis) + variable
        indices.append(index)
    return tvm.tirx.IndexMap(variables, indices, None)


def _length(axis: Any) -> Any:
    """The extent of an axis: an int, or an expression of dynamic dimensions."""
    return extent(axis) if is_known(axis.dom.extent) else axis.dom.extent


def _neighbours(shape: Any, indices: Any, group: list[Any]) -> int:
    """Number of values that are adjacent along these axes, in aligned groups; 1 if none are."""
    count = 1
    positions = [position for position, size in enumerate(shape) if not is_known(size) or int(size) > 1]
    for axis in reversed([axis for axis in group if extent(axis) > 1]):
        if (
            not positions
            or is_dynamic(axis)
            or not is_known(shape[positions[-1]])
            or not _is_unit_index(indices[position := positions.pop()], axis)
        ):
            break
        if any(uses([index], axis) for other, index in enumerate(indices) if other != position):
            break
        size = int(shape[position])
        if extent(axis) != size:
            return count * math.gcd(extent(axis), size)
        count *= size
    return count


def _is_unit_index(index: Any, axis: Any) -> bool:
    """Whether an index is an axis, plus at most one variable of extent 1 (of a 1×1 kernel window)."""
    terms = tvm.sym.detect_linear_equation(index, [axis.var])
    if not len(terms) or not isinstance(terms[0], tvm.tirx.IntImm) or int(terms[0]) != 1:
        return False
    rest = terms[1]
    return isinstance(rest, tvm.ir.Var) or (isinstance(rest, tvm.tirx.IntImm) and int(rest) == 0)
