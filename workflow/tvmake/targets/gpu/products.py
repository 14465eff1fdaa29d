"""Schedule matmuls and convolutions on GPUs: tiles in registers, operands through shared memory."""

from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import tvm

from tvmake.targets.cpu.schedules.accesses import bits
from tvmake.targets.gpu.epilogue import inline_consumers, inline_producers
from tvmake.targets.gpu.launches import bind_groups
from tvmake.targets.gpu.machine import VECTOR_BYTES, Gpu, gpu
from tvmake.targets.gpu.product_form import GATHERED, Product, as_product, product_of, read_product
from tvmake.targets.gpu.ranges.size_ranges import Choice, Parameters
from tvmake.targets.gpu.tiles import Tile, best_tile, best_tiles, estimated_cycles

from tvm.s_tir.dlight.base import ScheduleRule  # isort: skip

SMALLEST = 4
"""Rows, columns and products of a sum below which registers gain nothing in full GPUs."""

UNROLLED = 512
"""Maximum number of unrolled statements."""

DOT_LENGTH = 4
"""Terms of a sum that an integer intrinsic adds at once."""

DotIntrinsic = Callable[[Any, "tvm.target.Target"], str | None]
"""Gives the intrinsic for a contraction's operands, or None if the target has none."""


class Products(ScheduleRule):
    """Tiles for kernels with one matmul or convolution, and element-wise blocks around it."""

    def __init__(self, dot_intrinsic: DotIntrinsic = lambda _contraction, _target: None, tile: Tile | None = None):
        self.dot_intrinsic, self.tile = dot_intrinsic, tile

    def apply(self, func: Any, target: "tvm.target.Target", tunable: bool) -> Any:
        """A schedule; None for other kernels."""
        product = product_of(func)
        if product is None or (self.tile is None and not _is_worth_tiling(product, gpu(target))):
            return None
        tile = self.tile or best_tile(gpu(target), *product.shape, *_bytes(product))
        if tile is None:
            return None
        _TileScheduler(product, tile, self.dot_intrinsic(product.contraction, target)).apply()
        return product.schedule

    def choose(self, func: Any, target: "tvm.target.Target") -> Choice | None:
        """See :class:`~tvmake.targets.gpu.ranges.size_ranges.SizedRule`."""
        product = read_product(func)
        if product is None or min(product.shape[1:]) < SMALLEST:
            return None
        unit, size = gpu(target), (*product.shape, *_bytes(product))
        tile = best_tile(unit, *size)
        if tile is None:
            return None
        return Choice(
            astuple(tile),
            lambda parameters: estimated_cycles(unit, Tile(*parameters), *size),
            tile.slices > 1,
            lambda: [astuple(other) for other in best_tiles(unit, *size)[1:]],
        )

    def with_parameters(self, parameters: Parameters) -> "Products":
        """See :class:`~tvmake.targets.gpu.ranges.size_ranges.SizedRule`."""
        return Products(self.dot_intrinsic, Tile(*parameters))


def _is_worth_tiling(product: Product, unit: Gpu) -> bool:
    """Whether a tile is faster than a thread for each result.

    With two or three rows or columns, more than half of a tile is padding. If the results do not fill the GPU, the tile's
    threads share sums.
    """
    batch, rows, columns, length = product.shape
    is_filled = batch * rows * columns >= unit.busy_threads
    return length >= SMALLEST and (min(rows, columns) >= SMALLEST or (max(rows, columns) >= SMALLEST and not is_filled))


def _bytes(product: Product) -> tuple[int, int]:
    """Bytes per operand value and per result."""
    return max(product.operand_bytes), product.result_bytes


class _TileScheduler:
    def __init__(self, product: Product, tile: Tile, dot_intrinsic: str | None):
        self.product, self.tile = product, tile
        self.schedule, self.block = product.schedule, product.block
        self.dot_intrinsic, self.has_dots = dot_intrinsic, dot_intrinsic is not None
        """Whether four terms of a sum are added at once."""

    def apply(self) -> None:
        """Schedule the kernel in place."""
        schedule, tile = self.schedule, self.tile
        multiples = (tile.rows, tile.columns, tile.step)
        self.reads = as_product(self.product, multiples, (self.has_dots, self.has_dots))
        batch, row, column, sums = schedule.get_loops(self.block)
        if tile.slices == 1:
            self._whole_sums(batch, row, column, sums)
        else:
            self._sliced_sums(sums)

    def _whole_sums(self, batch: Any, row: Any, column: Any, sums: Any) -> None:
        schedule, block, tile = self.schedule, self.block, self.tile
        row_groups, rows, own_rows = schedule.split(row, [None, tile.rows // tile.thread_rows, tile.thread_rows])
        column_groups, columns, own_columns = schedule.split(
            column, [None, tile.columns // tile.thread_columns, tile.thread_columns]
        )
        steps, products, *dots = schedule.split(sums, self._within([None, tile.depth]))
        schedule.reorder(batch, row_groups, column_groups, rows, columns, steps, products, own_rows, own_columns, *dots)
        bind_groups(schedule, [batch, row_groups, column_groups])
        threads = schedule.fuse(rows, columns)
        schedule.bind(threads, "threadIdx.x")
        written = schedule.cache_write(block, 0, "local")
        schedule.reverse_compute_at(written, threads, preserve_unit_loops=True)
        self._operands(block, steps, products)
        inline_consumers(schedule, written)
        self._sums(block, steps, [own_rows, own_columns, products], dots)

    def _sliced_sums(self, sums: Any) -> None:
        schedule, block, tile = self.schedule, self.block, self.tile
        _, slices, _ = schedule.split(sums, [None, tile.slices, tile.depth])
        partial = schedule.rfactor(slices, factor_axis=0)
        written = schedule.cache_write(block, 0, "local")
        batch, row, column, slices = schedule.get_loops(block)
        row_groups, rows = schedule.split(row, [None, tile.rows])
        column_groups, columns = schedule.split(column, [None, tile.columns])
        schedule.reorder(batch, row_groups, column_groups, rows, columns, slices)
        groups = bind_groups(schedule, [batch, row_groups, column_groups])
        _, threads = schedule.split(schedule.fuse(rows, columns), [None, tile.threads])
        schedule.bind(threads, "threadIdx.x")
        schedule.reverse_compute_at(written, threads, preserve_unit_loops=True)
        schedule.compute_at(partial, groups[-1], preserve_unit_loops=True)
        loops = schedule.get_loops(partial)[len(groups) :]
        loops_by_name = dict(zip(("slices", "batch", "rows", "columns", "steps", "products"), loops, strict=True))
        rows, own_rows = schedule.split(loops_by_name["rows"], [None, tile.thread_rows])
        columns, own_columns = schedule.split(loops_by_name["columns"], [None, tile.thread_columns])
        steps = loops_by_name["steps"]
        products, *dots = schedule.split(loops_by_name["products"], self._within([tile.depth]))
        batch, slices = loops_by_name["batch"], loops_by_name["slices"]
        schedule.reorder(batch, slices, rows, columns, steps, products, own_rows, own_columns, *dots)
        threads = schedule.fuse(batch, slices, rows, columns)
        schedule.bind(threads, "threadIdx.x")
        shared = schedule.cache_write(partial, 0, "local")
        schedule.set_scope(shared, 0, "shared")
        schedule.reverse_compute_at(shared, threads, preserve_unit_loops=True)
        schedule.vectorize(schedule.get_loops(shared)[-1])
        self._operands(partial, steps, products)
        inline_consumers(schedule, written)
        self._sums(partial, steps, [own_rows, own_columns, products], dots)
        schedule.decompose_reduction(block, schedule.get_loops(block)[-1])

    def _within(self, factors: list[int | None]) -> list[int | None]:
        """Factors of a sum's loop; the last one is split into groups that are multiplied at once."""
        *outer, depth = factors
        return [*outer, (depth or 0) // DOT_LENGTH, DOT_LENGTH] if self.has_dots else factors

    def _operands(self, block: Any, steps: Any, products: Any) -> None:
        """Load operands into shared memory by all threads together, then into each thread's registers."""
        schedule, tile = self.schedule, self.tile
        for read, along_sum, width in zip(
            self.reads, self.product.along_sum(), (tile.thread_rows, tile.thread_columns), strict=True
        ):
            shared = schedule.cache_read(block, read, "shared")
            schedule.compute_at(shared, steps, preserve_unit_loops=True)
            if self.has_dots:
                self._groups_of_terms(shared, along_sum)
            else:
                *_, depth, side = schedule.get_loops(shared)
                if along_sum:
                    schedule.reorder(side, depth)
                    schedule.storage_align(shared, 0, axis=-2, factor=8, offset=4)
                self._by_all_threads([side, depth] if along_sum else [depth, side])
            inline_producers(schedule, shared)
            local = schedule.cache_read(block, read, "local")
            schedule.compute_at(local, products, preserve_unit_loops=True)
            most = GATHERED if along_sum else VECTOR_BYTES * 8 // bits(schedule.get(local).body.buffer)
            if self.has_dots or width <= most:
                schedule.vectorize(schedule.get_loops(local)[-1])

    def _groups_of_terms(self, shared: Any, along_sum: bool) -> None:
        """Make four terms of a sum adjacent in shared memory, as one value, while threads read contiguous memory."""
        schedule = self.schedule
        schedule.transform_layout(
            shared, ("write", 0), lambda batch, side, term: (batch, term // DOT_LENGTH, side, term % DOT_LENGTH)
        )
        *_, side, depth = schedule.get_loops(shared)
        depth, lanes = schedule.split(depth, [None, DOT_LENGTH])
        order = [side, depth] if along_sum else [depth, side]
        schedule.reorder(*order, lanes)
        self._by_all_threads(order)
        schedule.vectorize(lanes)

    def _by_all_threads(self, loops: list[Any]) -> None:
        schedule = self.schedule
        _, threads = schedule.split(schedule.fuse(*loops), [None, self.tile.threads])
        schedule.bind(threads, "threadIdx.x")

    def _sums(self, block: Any, steps: Any, loops: list[Any], dots: list[Any]) -> None:
        """Unroll the sums of each thread."""
        schedule, tile = self.schedule, self.tile
        own_rows, own_columns, products = loops
        schedule.unroll(own_rows)
        schedule.unroll(own_columns)
        if tile.thread_rows * tile.thread_columns * tile.depth <= UNROLLED:
            schedule.unroll(products)
        schedule.decompose_reduction(block, steps)
        for loop in dots:
            schedule.tensorize(loop, self.dot_intrinsic)
