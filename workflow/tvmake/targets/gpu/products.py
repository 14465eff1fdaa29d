"""A schedule for products of matrices and convolutions on GPUs: tiles in registers, operands through shared memory."""

from typing import Any

import tvm

from tvmake.targets.cpu.schedules.accesses import bits
from tvmake.targets.gpu.epilogue import inline_consumers, inline_producers
from tvmake.targets.gpu.machine import VECTOR_BYTES, gpu
from tvmake.targets.gpu.product_form import GATHERED, Product, as_product, product_of
from tvmake.targets.gpu.tiles import Tile, best_tile

from tvm.s_tir.dlight.base import ScheduleRule  # isort: skip

SMALLEST = 4
"""Rows, columns and products of a sum, below which there is nothing to keep in registers."""

UNROLLED = 512
"""Statements that loops may be written out to."""


class Products(ScheduleRule):
    """Tiles for kernels with one product of matrices or convolution, and element-wise blocks around it."""

    def apply(self, func: Any, target: "tvm.target.Target", tunable: bool) -> Any:
        """A schedule; None for other kernels."""
        product = product_of(func)
        if product is None or min(product.shape[1:]) < SMALLEST:
            return None
        tile = best_tile(gpu(target), *product.shape, max(product.operand_bytes), product.result_bytes)
        if tile is None:
            return None
        _Tiled(product, tile).apply()
        return product.schedule


class _Tiled:
    """One kernel's schedule."""

    def __init__(self, product: Product, tile: Tile):
        self.product, self.tile = product, tile
        self.schedule, self.block = product.schedule, product.block

    def apply(self) -> None:
        """Schedule the kernel, in place."""
        schedule, tile = self.schedule, self.tile
        self.reads = as_product(self.product, (tile.rows, tile.columns, tile.step))
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
            self.reads, self.product.along_sum(), (tile.thread_rows, tile.thread_columns), strict=True
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
            most = GATHERED if along_sum else VECTOR_BYTES * 8 // bits(schedule.get(local).body.buffer)
            if width <= most:
                schedule.vectorize(schedule.get_loops(local)[-1])

    def _unroll(self, block: Any, *loops: Any) -> None:
        tile = self.tile
        for loop in loops[:2]:
            self.schedule.unroll(loop)
        if tile.thread_rows * tile.thread_columns * tile.depth <= UNROLLED:
            self.schedule.unroll(loops[2])
