"""A schedule for products of matrices and convolutions on GPUs: tiles in registers, operands through shared memory.

A convolution is a product of its weights and of the windows of its input (im2col), which are put together in shared memory, so
that memory holds no copy of them (Chetlur et al., "cuDNN: efficient primitives for deep learning", 2014).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm

from tvmake.targets.cpu.schedules.accesses import Contraction, bits, contraction, extent, uses
from tvmake.targets.gpu.blocks import with_one_sum
from tvmake.targets.gpu.epilogue import inline_consumers, inline_producers
from tvmake.targets.gpu.machine import gpu
from tvmake.targets.gpu.tiles import Tile, best_tile

from tvm.s_tir.dlight.base import ScheduleRule  # isort: skip

SMALLEST = 4
"""Rows, columns and products of a sum, below which there is nothing to keep in registers."""

HALF = 2
"""Bytes of float16."""

TENSOR_CORES_FROM = 64
"""Rows, columns and products of a sum, above which dlight's rule for CUDA uses tensor cores."""

TENSOR_CORES_TILE = 128
"""Rows and columns of its tiles. Fewer of them than cores leave most of a GPU idle: with ResNet-50 in float16 at batch 1 that
rule took 2.18 ms on an H200, tiles as here 0.95."""

UNROLLED = 512
"""Statements that loops may be written out to."""

VECTOR_BYTES = 16
"""That a thread moves at once."""


@dataclass(frozen=True)
class _Axes:
    """The axes of a contraction by what depends on them."""

    batch: list[Any]
    rows: list[Any]
    columns: list[Any]
    """Those along which results lie side by side in memory, and the others of the same operand."""
    sums: list[Any]
    of_rows: int
    """Which operand has the rows."""


class Products(ScheduleRule):
    """Tiles for kernels with one product of matrices or convolution, and element-wise blocks around it."""

    def apply(self, func: Any, target: "tvm.target.Target", tunable: bool) -> Any:
        """A schedule; None for other kernels."""
        found = with_one_sum(func)
        if found is None:
            return None
        schedule, block = found
        taken = contraction(schedule.get(block))
        axes = _axes(taken) if taken is not None else None
        if taken is None or axes is None:
            return None
        batch, rows, columns, length = (
            math.prod(map(extent, group)) for group in (axes.batch, axes.rows, axes.columns, axes.sums)
        )
        sizes = [bits(load.source) // 8 for load in taken.operands]
        result = bits(taken.block.body.buffer) // 8
        if min(rows, columns, length) < SMALLEST or not all(sizes) or not result:
            return None
        unit = gpu(target)
        if target.kind.name == "cuda" and max(sizes) == HALF and min(rows, columns, length) > TENSOR_CORES_FROM:
            tiles = batch * -(-rows // TENSOR_CORES_TILE) * -(-columns // TENSOR_CORES_TILE)
            if tiles >= unit.cores:
                return None  # dlight's rule computes these on tensor cores
        tile = best_tile(unit, batch, rows, columns, length, max(sizes), result)
        if tile is None:
            return None
        _Tiled(schedule, block, taken, axes, tile).apply()
        return schedule


def _axes(taken: Contraction) -> _Axes | None:
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
    return _Axes(batch, sides[1 - of_columns], sides[of_columns], [*windows, *plain], 1 - of_columns)


class _Tiled:
    """One kernel's schedule."""

    def __init__(self, schedule: Any, block: Any, taken: Contraction, axes: _Axes, tile: Tile):
        self.schedule, self.block, self.taken, self.axes, self.tile = schedule, block, taken, axes, tile
        self.along_sum = [self._is_along_sum(load) for load in taken.operands]

    def _is_along_sum(self, load: Any) -> bool:
        """Whether an operand's neighbours in memory are summed up."""
        axes = self.axes
        sides = [*axes.batch, *axes.rows, *axes.columns]
        last = next(
            index for index in reversed(load.indices) if any(uses([index], axis) for axis in (*sides, *axes.sums))
        )
        return not any(uses([last], axis) for axis in sides)

    def apply(self) -> None:
        """Schedule the kernel, in place."""
        schedule, tile = self.schedule, self.tile
        self._as_product()
        batch, row, column, sums = schedule.get_loops(self.block)
        if tile.slices == 1:
            self._whole_sums(batch, row, column, sums)
        else:
            self._sliced_sums(sums)

    def _as_product(self) -> None:
        """Make the block one of four axes: batch, rows, columns and sum, all of them multiples of the tile's."""
        schedule, block, axes = self.schedule, self.block, self.axes
        reads = [
            next(
                number for number, region in enumerate(schedule.get(block).reads) if region.source.same_as(load.source)
            )
            for load in self.taken.operands
        ]
        if sorted(reads) != [0, 1]:
            raise ValueError("an operand that is read twice")
        copies = [schedule.reindex(block, ("read", number)) for number in (0, 1)]
        result = schedule.reindex(block, ("write", 0))
        groups = {"batch": axes.batch, "rows": axes.rows, "columns": axes.columns, "sums": axes.sums}
        # The copies are indexed by the block's axes, some of extent 1 left out.
        product = schedule.get(block)
        old = list(zip(product.iter_vars, self.taken.block.iter_vars, strict=True))
        for load, number in zip(self.taken.operands, reads, strict=True):
            side = "rows" if load is self.taken.operands[axes.of_rows] else "columns"
            used = _axes_of(product.reads[number], old)
            schedule.transform_layout(
                copies[number], ("write", 0), _fusing(used, [groups[name] for name in ("batch", "sums", side)])
            )
        written = _axes_of(product.writes[0], old)
        schedule.transform_layout(
            result, ("read", 0), _fusing(written, [groups[name] for name in ("batch", "rows", "columns")])
        )
        schedule.transform_block_layout(block, _fusing(list(self.taken.block.iter_vars), list(groups.values())))
        tile = self.tile
        schedule.pad_einsum(block, [1, tile.rows, tile.columns, tile.step])
        # Which of the block's reads has the rows, from now on.
        self.reads = [reads[axes.of_rows], reads[1 - axes.of_rows]]
        self.reads_along_sum = [self.along_sum[axes.of_rows], self.along_sum[1 - axes.of_rows]]

    def _whole_sums(self, batch: Any, row: Any, column: Any, sums: Any) -> None:
        schedule, block, tile = self.schedule, self.block, self.tile
        row_groups, rows, own_rows = schedule.split(row, [None, tile.rows // tile.thread_rows, tile.thread_rows])
        column_groups, columns, own_columns = schedule.split(
            column, [None, tile.columns // tile.thread_columns, tile.thread_columns]
        )
        steps, products = schedule.split(sums, [None, tile.depth])
        schedule.reorder(batch, row_groups, column_groups, rows, columns, steps, products, own_rows, own_columns)
        schedule.bind(schedule.fuse(batch, row_groups, column_groups), "blockIdx.x")
        threads = schedule.fuse(rows, columns)
        schedule.bind(threads, "threadIdx.x")
        written = schedule.cache_write(block, 0, "local")
        schedule.reverse_compute_at(written, threads, preserve_unit_loops=True)
        self._operands(block, steps, products)
        inline_consumers(schedule, written)
        self._unroll(block, own_rows, own_columns, products)
        schedule.decompose_reduction(block, steps)

    def _sliced_sums(self, sums: Any) -> None:
        schedule, block, tile = self.schedule, self.block, self.tile
        _, slices, _ = schedule.split(sums, [None, tile.slices, tile.depth])
        partial = schedule.rfactor(slices, factor_axis=0)
        written = schedule.cache_write(block, 0, "local")
        batch, row, column, slices = schedule.get_loops(block)
        row_groups, rows = schedule.split(row, [None, tile.rows])
        column_groups, columns = schedule.split(column, [None, tile.columns])
        schedule.reorder(batch, row_groups, column_groups, rows, columns, slices)
        groups = schedule.fuse(batch, row_groups, column_groups)
        schedule.bind(groups, "blockIdx.x")
        _, threads = schedule.split(schedule.fuse(rows, columns), [None, tile.threads])
        schedule.bind(threads, "threadIdx.x")
        schedule.reverse_compute_at(written, threads, preserve_unit_loops=True)
        schedule.compute_at(partial, groups, preserve_unit_loops=True)
        loops = schedule.get_loops(partial)[1:]
        found = dict(zip(("slices", "batch", "rows", "columns", "steps", "products"), loops, strict=True))
        rows, own_rows = schedule.split(found["rows"], [None, tile.thread_rows])
        columns, own_columns = schedule.split(found["columns"], [None, tile.thread_columns])
        schedule.reorder(
            found["batch"], found["slices"], rows, columns, found["steps"], found["products"], own_rows, own_columns
        )
        threads = schedule.fuse(found["batch"], found["slices"], rows, columns)
        schedule.bind(threads, "threadIdx.x")
        shared = schedule.cache_write(partial, 0, "local")
        schedule.set_scope(shared, 0, "shared")
        schedule.reverse_compute_at(shared, threads, preserve_unit_loops=True)
        schedule.vectorize(schedule.get_loops(shared)[-1])
        self._operands(partial, found["steps"], found["products"])
        inline_consumers(schedule, written)
        self._unroll(partial, own_rows, own_columns, found["products"])
        schedule.decompose_reduction(partial, found["steps"])
        schedule.decompose_reduction(block, schedule.get_loops(block)[-1])

    def _operands(self, block: Any, steps: Any, products: Any) -> None:
        """Operands come into shared memory by all threads together, and from there into each thread's registers."""
        schedule, tile = self.schedule, self.tile
        for read, along_sum, width in zip(
            self.reads, self.reads_along_sum, (tile.thread_rows, tile.thread_columns), strict=True
        ):
            shared = schedule.cache_read(block, read, "shared")
            schedule.compute_at(shared, steps, preserve_unit_loops=True)
            *_, depth, side = schedule.get_loops(shared)
            if along_sum:
                schedule.reorder(side, depth)
                schedule.storage_align(shared, 0, axis=-2, factor=8, offset=4)
            fused = schedule.fuse(*((side, depth) if along_sum else (depth, side)))
            _, threads = schedule.split(fused, [None, tile.threads])
            schedule.bind(threads, "threadIdx.x")
            inline_producers(schedule, shared)
            local = schedule.cache_read(block, read, "local")
            schedule.compute_at(local, products, preserve_unit_loops=True)
            if width * bits(schedule.get(local).body.buffer) // 8 <= VECTOR_BYTES:
                schedule.vectorize(schedule.get_loops(local)[-1])

    def _unroll(self, block: Any, *loops: Any) -> None:
        tile = self.tile
        for loop in loops[:2]:
            self.schedule.unroll(loop)
        if tile.thread_rows * tile.thread_columns * tile.depth <= UNROLLED:
            self.schedule.unroll(loops[2])


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
