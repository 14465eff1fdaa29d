"""A kernel's sum as one product of matrices: batch, rows, columns and the sum, whichever axes it has.

A convolution is a product of its weights and of the windows of its input (im2col), which are put together where an operand is
read, so that memory holds no copy of them (Chetlur et al., "cuDNN: efficient primitives for deep learning", 2014).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm

from tvmake.targets.cpu.schedules.accesses import Contraction, bits, contraction, extent, uses
from tvmake.targets.gpu.blocks import with_one_sum

GATHERED = 4
"""Values that a thread moves at once where they may lie apart: more of float16 cannot be gathered. Repair: `cuda-half-gathers`."""


@dataclass(frozen=True)
class Axes:
    """The axes of a contraction by what depends on them."""

    batch: list[Any]
    rows: list[Any]
    columns: list[Any]
    """Those along which results lie side by side in memory, and the others of the same operand."""
    sums: list[Any]
    places: int
    """How many of the sums, the first ones, are places in a window."""
    of_rows: int
    """Which operand has the rows."""


@dataclass(frozen=True)
class Product:
    """A kernel with one product of matrices or convolution, and element-wise blocks around it."""

    schedule: "tvm.s_tir.Schedule"
    block: Any
    """Of the sum."""
    contraction: Contraction
    axes: Axes

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """How many products, the rows and columns of each, and the terms of a sum."""
        axes = self.axes
        batch, rows, columns, length = (
            math.prod(map(extent, group)) for group in (axes.batch, axes.rows, axes.columns, axes.sums)
        )
        return batch, rows, columns, length

    @property
    def operand_bytes(self) -> list[int]:
        """Of a value of each operand; 0 below a byte."""
        return [bits(load.source) // 8 for load in self.contraction.operands]

    @property
    def result_bytes(self) -> int:
        """Of a value of the result."""
        return bits(self.contraction.block.body.buffer) // 8

    @property
    def is_windowed(self) -> bool:
        """Whether an operand is read at places that depend on several axes: in windows of more than one place."""
        every = [*self.axes.rows, *self.axes.columns, *self.axes.sums]
        return any(
            sum(uses([index], axis) for axis in every) > 1
            for load in self.contraction.operands
            for index in load.indices
        )

    @property
    def run(self) -> int:
        """How many terms of a sum follow each other at one place of the windows."""
        return math.prod(map(extent, self.axes.sums[self.axes.places :]))

    @property
    def sides(self) -> tuple[Any, Any]:
        """The loads of the operand with the rows, and of the one with the columns."""
        operands = self.contraction.operands
        return operands[self.axes.of_rows], operands[1 - self.axes.of_rows]

    def along_sum(self) -> tuple[bool, bool]:
        """Whether neighbours in memory are summed up: of the operand with the rows, and of the one with the columns."""
        rows, columns = self.sides
        return self._is_along_sum(rows), self._is_along_sum(columns)

    def operand_lanes(self, sums_last: tuple[bool, bool], most: int) -> tuple[int, int]:
        """How many values of each operand a thread moves at once, along the sum or along the operand's side.

        Args:
            sums_last: as for :func:`as_product`.
            most: that it can.
        """
        axes, schedule = self.axes, self.schedule
        lasts = (axes.sums if sums_last[0] else axes.rows, axes.sums if sums_last[1] else axes.columns)
        made = [write.source for block in schedule.get_producers(self.block) for write in schedule.get(block).writes]
        rows, columns = (
            math.gcd(
                _neighbours(load.source.shape, load.indices, last),
                # What is computed where it is read may come from here and there.
                min(most, GATHERED) if any(load.source.same_as(source) for source in made) else most,
            )
            for load, last in zip(self.sides, lasts, strict=True)
        )
        return rows, columns

    def result_lanes(self, most: int) -> int:
        """How many results a thread writes at once, along the columns, of as many as it can."""
        store = self.contraction.block.body
        found = _neighbours(store.buffer.shape, store.indices, self.axes.columns)
        return math.gcd(found, min(most, GATHERED) if self.schedule.get_consumers(self.block) else most)

    def _is_along_sum(self, load: Any) -> bool:
        axes = self.axes
        sides = [*axes.batch, *axes.rows, *axes.columns]
        last = next(
            index for index in reversed(load.indices) if any(uses([index], axis) for axis in (*sides, *axes.sums))
        )
        return not any(uses([last], axis) for axis in sides)


def product_of(func: Any) -> Product | None:
    """The product of a kernel; None for other kernels."""
    found = with_one_sum(func)
    if found is None:
        return None
    schedule, block = found
    taken = contraction(schedule.get(block))
    axes = _axes(taken) if taken is not None else None
    if taken is None or axes is None:
        return None
    product = Product(schedule, block, taken, axes)
    return product if all(product.operand_bytes) and product.result_bytes else None


def as_product(
    product: Product, multiples: tuple[int, int, int], sums_last: tuple[bool, bool] = (False, False)
) -> tuple[int, int]:
    """Make the block one of four axes: batch, rows, columns and sum.

    Args:
        product: a kernel's, whose schedule is changed.
        multiples: that rows, columns and sum are filled up to, with zeros.
        sums_last: whether the sum is the last axis of the operand with the rows, and of the one with the columns; else the side is.

    Returns:
        which of the block's reads has the rows, and which the columns.

    Raises:
        ValueError: both operands are the same tensor.
        ScheduleError: the kernel cannot be written so.
    """
    schedule, block, axes, taken = product.schedule, product.block, product.axes, product.contraction
    reads = [
        next(number for number, region in enumerate(schedule.get(block).reads) if region.source.same_as(load.source))
        for load in taken.operands
    ]
    if sorted(reads) != [0, 1]:
        raise ValueError("an operand that is read twice")
    copies = [schedule.reindex(block, ("read", number)) for number in (0, 1)]
    result = schedule.reindex(block, ("write", 0))
    groups = {"batch": axes.batch, "rows": axes.rows, "columns": axes.columns, "sums": axes.sums}
    # The copies are indexed by the block's axes, some of extent 1 left out.
    rewritten = schedule.get(block)
    old = list(zip(rewritten.iter_vars, taken.block.iter_vars, strict=True))
    for load, number in zip(taken.operands, reads, strict=True):
        has_rows = load is taken.operands[axes.of_rows]
        side = "rows" if has_rows else "columns"
        order = ("batch", side, "sums") if sums_last[0 if has_rows else 1] else ("batch", "sums", side)
        used = _axes_of(rewritten.reads[number], old)
        schedule.transform_layout(copies[number], ("write", 0), _fusing(used, [groups[name] for name in order]))
    written = _axes_of(rewritten.writes[0], old)
    schedule.transform_layout(
        result, ("read", 0), _fusing(written, [groups[name] for name in ("batch", "rows", "columns")])
    )
    schedule.transform_block_layout(block, _fusing(list(taken.block.iter_vars), list(groups.values())))
    schedule.pad_einsum(block, [1, *multiples])
    return reads[axes.of_rows], reads[1 - axes.of_rows]


def _axes(taken: Contraction) -> Axes | None:
    """The axes; None where an axis is in no operand or a sum's is in one only."""
    batch: list[Any] = []
    sides: tuple[list[Any], list[Any]] = ([], [])
    for axis in taken.spatial:
        found = [uses(load.indices, axis) for load in taken.operands]
        if extent(axis) == 1:
            continue
        if all(found):
            batch.append(axis)
        elif any(found):
            sides[found.index(True)].append(axis)
        else:
            return None
    if not all(extent(axis) == 1 or all(uses(load.indices, axis) for load in taken.operands) for axis in taken.reduced):
        return None
    written = [index for index in taken.block.body.indices if not isinstance(index, tvm.tirx.IntImm)]
    last = [axis for axis in taken.spatial if extent(axis) > 1 and any(index.same_as(axis.var) for index in written)]
    if len(last) != len([axis for axis in taken.spatial if extent(axis) > 1]) or not last or not all(sides):
        return None
    innermost = next(axis for index in reversed(written) for axis in last if index.same_as(axis.var))
    of_columns = next((side for side in (0, 1) if any(axis.var.same_as(innermost.var) for axis in sides[side])), 1)
    # Windows outside, channels within: the place in the window is the same for all of a step.
    sums = [axis for axis in taken.reduced if extent(axis) > 1]
    plain = [axis for axis in sums if any(index.same_as(axis.var) for index in taken.operands[of_columns].indices)]
    plain = [axis for axis in plain if any(index.same_as(axis.var) for index in taken.operands[1 - of_columns].indices)]
    windows = [axis for axis in sums if not any(axis.var.same_as(other.var) for other in plain)]
    return Axes(batch, sides[1 - of_columns], sides[of_columns], [*windows, *plain], len(windows), 1 - of_columns)


def _axes_of(region: Any, old: Sequence[tuple[Any, Any]]) -> list[Any]:
    """The axes, as they were, that a region of single elements is indexed by."""
    return [next(before for axis, before in old if axis.var.same_as(index.min)) for index in region.region]


def _fusing(axes: list[Any], groups: list[list[Any]]) -> Any:
    """An index map from these axes to one index for each group."""
    variables = [tvm.tirx.Var(f"i{number}", axis.var.ty) for number, axis in enumerate(axes)]
    indices = []
    for group in groups:
        index = tvm.tirx.IntImm("int64", 0)
        for axis in group:
            (variable,) = [new for new, old in zip(variables, axes, strict=True) if old.var.same_as(axis.var)]
            index = index * extent(axis) + variable
        indices.append(index)
    return tvm.tirx.IndexMap(variables, indices, None)


def _neighbours(shape: Any, indices: Any, group: list[Any]) -> int:
    """How many values lie side by side along these axes, in aligned groups, whatever the others are; 1 where they do not."""
    found = 1
    places = [place for place, size in enumerate(shape) if int(size) > 1]
    for axis in reversed([axis for axis in group if extent(axis) > 1]):
        if not places or not _counts(indices[place := places.pop()], axis):
            break
        if any(uses([index], axis) for other, index in enumerate(indices) if other != place):
            break
        size = int(shape[place])
        if extent(axis) != size:
            return found * math.gcd(extent(axis), size)
        found *= size
    return found


def _counts(index: Any, axis: Any) -> bool:
    """Whether an index is an axis, and at most one more that may be of extent 1 alone (of a window with one place)."""
    terms = tvm.sym.detect_linear_equation(index, [axis.var])
    if not len(terms) or not isinstance(terms[0], tvm.tirx.IntImm) or int(terms[0]) != 1:
        return False
    rest = terms[1]
    return isinstance(rest, tvm.ir.Var) or (isinstance(rest, tvm.tirx.IntImm) and int(rest) == 0)
