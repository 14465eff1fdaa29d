"""Schedule matmuls and convolutions on NVIDIA's tensor cores, in float16 and, if the network allows it, in TF32.

A work group of several warps computes a tile of results. Operands pass through shared memory, one slice of the sum at a
time, while the tensor cores multiply the previous slice. Each warp holds its part of the tile in fragments, and finally
writes it to shared memory, where the epilogue (bias, activation, residual) is computed. (Thakkar et al., "CUTLASS",
2017, has the same structure.)
"""

import math
from dataclasses import astuple
from typing import Any

import tvm

from tvmake.ir.dimensions import is_known
from tvmake.ir.expressions import dtype_name
from tvmake.targets.cuda.fragment_tiles import STATIC_SHARED, WARP, FragmentProduct, FragmentTile, best_tiles, cycles
from tvmake.targets.cuda.fragments import IN_TF32, PAIRS, SHARED, SIDE, Fragments
from tvmake.targets.cuda.propagate_tf32 import allows_tf32
from tvmake.targets.gpu.epilogue import inline_consumers, inline_producers
from tvmake.targets.gpu.launches import bind_groups
from tvmake.targets.gpu.machine import VECTOR_BYTES, compute_capability, gpu
from tvmake.targets.gpu.product_form import Product, as_product, product_of, read_product
from tvmake.targets.gpu.ranges.size_ranges import Choice, Parameters
from tvmake.targets.gpu.tiles import best_tile, estimated_cycles

from tvm.s_tir.dlight.base import ScheduleRule  # isort: skip

SMALLEST = 8
"""Rows, columns and products of a sum below which most of a fragment would be zeros."""

PLAIN, PLAIN_IN_WINDOWS = 1.7, 3.3
"""Time without tensor cores, relative to its estimate, in float16 on an H100: geometric means of 42 kernels."""

SINGLE, SINGLE_IN_WINDOWS = 1.3, 1.8
"""The same in float32 on an H200, for 22 kernels, less a fifth: a small gain of TF32 is not worth its accuracy."""

OLDEST, OLDEST_WITH_TF32 = 70, 80
"""Ten times the compute capability of the first tensor cores, and of the first with TF32."""


class TensorCores(ScheduleRule):
    """Tiles of fragments for kernels with one matmul or convolution."""

    def __init__(self, tile: FragmentTile | None = None):
        self.tile = tile

    def apply(self, func: Any, target: "tvm.target.Target", tunable: bool) -> Any:
        """A schedule; None for other kernels and targets."""
        product = _product(func, target, is_any_size=self.tile is not None)
        if product is None:
            return None
        fragments = _fragments(product)
        tile = self.tile or next(iter(_tiles(product, fragments, target)), None)
        if tile is None:
            return None
        _TensorCoreScheduler(product, tile, fragments).apply()
        return product.schedule

    def choose(self, func: Any, target: "tvm.target.Target") -> Choice | None:
        """See :class:`~tvmake.targets.gpu.ranges.size_ranges.SizedRule`."""
        product = _check_product(read_product(func), func, target)
        tiles = _tiles(product, _fragments(product), target) if product else []
        if product is None or not tiles:
            return None
        whole = _fragment_product(product, _fragments(product))
        return Choice(
            astuple(tiles[0]),
            lambda parameters: cycles(FragmentTile(*parameters), whole),
            further=lambda: list(map(astuple, tiles[1:])),
        )

    def with_parameters(self, parameters: Parameters) -> "TensorCores":
        """See :class:`~tvmake.targets.gpu.ranges.size_ranges.SizedRule`."""
        return TensorCores(FragmentTile(*parameters))


def good_tiles(func: Any, target: "tvm.target.Target") -> list[FragmentTile]:
    """Tiles for a kernel, the best one first; empty without tensor cores."""
    product = _product(func, target)
    return _tiles(product, _fragments(product), target) if product else []


def _product(func: Any, target: "tvm.target.Target", *, is_any_size: bool = False) -> Product | None:
    """A kernel's matmul; None without one, or if the target's tensor cores do not support it.

    Args:
        is_any_size: accept matmuls of any size.
    """
    return _check_product(product_of(func), func, target, is_any_size=is_any_size)


def _check_product(
    product: Product | None, func: Any, target: "tvm.target.Target", *, is_any_size: bool = False
) -> Product | None:
    """A kernel's matmul; None if the target's tensor cores do not support it."""
    if compute_capability(target) < OLDEST:
        return None
    if product is None or (not is_any_size and min(product.shape[1:]) < SMALLEST):
        return None
    operands = {dtype_name(load.source) for load in product.contraction.operands}
    kinds = (*PAIRS, IN_TF32) if allows_tf32(func) and compute_capability(target) >= OLDEST_WITH_TF32 else PAIRS
    return product if len(operands) == 1 and (*operands, _result_type(product)) in kinds else None


def _result_type(product: Product) -> str:
    return dtype_name(product.contraction.block.body.buffer)


def _fragments(product: Product) -> Fragments:
    operand = dtype_name(product.contraction.operands[0].source)
    return Fragments(operand, _result_type(product), product.along_sum()[1], product.axes.row_operand == 1)


def _tiles(product: Product, fragments: Fragments, target: "tvm.target.Target") -> list[FragmentTile]:
    """Tiles, the best one first; empty if plain arithmetic is estimated to be as fast."""
    size, result = product.operand_bytes[0], product.result_bytes
    whole = _fragment_product(product, fragments)
    tiles = best_tiles(whole, int(target.attrs.get("max_shared_memory_per_block", STATIC_SHARED)))
    plain = best_tile(gpu(target), *product.shape, size, result)
    if tiles and plain:
        plain_ones, in_windows = (SINGLE, SINGLE_IN_WINDOWS) if fragments.is_single else (PLAIN, PLAIN_IN_WINDOWS)
        slower = in_windows if product.is_windowed else plain_ones
        if slower * estimated_cycles(gpu(target), plain, *product.shape, size, result) < cycles(tiles[0], whole):
            return []
    return tiles


def _fragment_product(product: Product, fragments: Fragments) -> FragmentProduct:
    size = product.operand_bytes[0]
    lanes = product.operand_lanes((True, fragments.is_right_transposed), VECTOR_BYTES // size)
    return FragmentProduct(*product.shape, size, product.result_bytes, product.is_windowed, product.run, lanes)


class _TensorCoreScheduler:
    def __init__(self, product: Product, tile: FragmentTile, fragments: Fragments):
        self.product, self.tile, self.fragments = product, tile, fragments
        self.schedule, self.block = product.schedule, product.block
        self.sums_last = (True, fragments.is_right_transposed)
        self.operand_lanes = product.operand_lanes(self.sums_last, VECTOR_BYTES // product.operand_bytes[0])
        self.result_lanes = product.result_lanes(VECTOR_BYTES // product.result_bytes)

    def apply(self) -> None:
        """Schedule the kernel in place."""
        schedule, block, tile, fragments = self.schedule, self.block, self.tile, self.fragments
        reads = as_product(self.product, (tile.rows, tile.columns, tile.depth), self.sums_last)
        batch, row, column, sums = schedule.get_loops(block)
        length = schedule.get(sums).extent
        is_one_step = is_known(length) and int(length) == tile.depth
        row, in_row = schedule.split(row, [None, SIDE])
        column, in_column = schedule.split(column, [None, SIDE])
        sums, in_sum = schedule.split(sums, [None, SIDE])
        schedule.reorder(row, column, sums, in_row, in_column, in_sum)
        whole = schedule.blockize(in_row)
        row_groups, row_warps, own_rows = schedule.split(row, [None, tile.row_warps, tile.own_rows])
        column_groups, column_warps, own_columns = schedule.split(column, [None, tile.column_warps, tile.own_columns])
        steps, products = schedule.split(sums, [None, tile.depth // SIDE])
        schedule.reorder(
            batch, row_groups, column_groups, row_warps, column_warps, steps, products, own_rows, own_columns
        )
        bind_groups(schedule, [batch, row_groups, column_groups])
        warps = schedule.fuse(row_warps, column_warps)
        schedule.bind(warps, "threadIdx.y")
        shared = [
            self._load_shared(whole, read, lanes, is_sum_last, steps)
            for read, lanes, is_sum_last in zip(reads, self.operand_lanes, self.sums_last, strict=True)
        ]
        scopes = (fragments.calls.LEFT, fragments.calls.RIGHT)
        loaded = [schedule.cache_read(whole, read, scope) for read, scope in zip(reads, scopes, strict=True)]
        for fragment in loaded:
            schedule.compute_at(fragment, products)
        written = schedule.cache_write(whole, 0, fragments.results)
        stored = schedule.cache_write(whole, 0, fragments.calls.SUMS)
        schedule.reverse_compute_at(stored, warps)
        schedule.reverse_compute_at(written, warps)
        cleared = schedule.decompose_reduction(whole, steps)
        self._tensorize(loaded[0], fragments.load_left())
        self._tensorize(loaded[1], fragments.load_right())
        self._tensorize(stored, fragments.store())
        schedule.tensorize(schedule.get_loops(schedule.get_child_blocks(cleared)[0])[-2], fragments.clear())
        schedule.tensorize(schedule.get_loops(block)[-3], fragments.multiply())
        if fragments.is_single:
            # Constant indices keep values in registers.
            for loop in (products, own_rows, own_columns):
                schedule.unroll(loop)
        if not is_one_step:
            self._pipeline(shared, steps, products)
        inline_consumers(schedule, written)
        self._write_by_warp(written)

    def _load_shared(self, block: Any, read: int, lanes: int, is_sum_last: bool, steps: Any) -> Any:
        """An operand's slice in shared memory, loaded by all threads together."""
        schedule, tile = self.schedule, self.tile
        shared = schedule.cache_read(block, read, SHARED)
        schedule.compute_at(shared, steps)
        row, column = schedule.get_loops(shared)[-2:]
        height, width = (int(schedule.get(loop).extent) for loop in (row, column))
        lanes = math.gcd(height * width // tile.threads, width, lanes)
        _, warp, thread, lane = schedule.split(schedule.fuse(row, column), [None, tile.warps, WARP, lanes])
        schedule.bind(warp, "threadIdx.y")
        schedule.bind(thread, "threadIdx.x")
        schedule.vectorize(lane)
        # Threads of a warp then read from different banks.
        offset = 4 if self.fragments.is_single and is_sum_last else 8
        schedule.storage_align(shared, 0, axis=-2, factor=SIDE, offset=offset)
        inline_producers(schedule, shared)
        return shared

    def _tensorize(self, block: Any, intrinsic: str) -> None:
        schedule = self.schedule
        row, column = schedule.get_loops(block)[-2:]
        row, in_row = schedule.split(row, [None, SIDE])
        column, in_column = schedule.split(column, [None, SIDE])
        schedule.reorder(row, column, in_row, in_column)
        schedule.unroll(row)
        schedule.unroll(column)
        schedule.tensorize(in_row, intrinsic)

    def _pipeline(self, shared: list[Any], steps: Any, products: Any) -> None:
        """Load the next slice during the multiplications: into registers before, into shared memory after them."""
        schedule = self.schedule
        for block in shared:
            schedule.annotate(block, "tirx.manifest_shared_memory_local_stage", 1)
            schedule.annotate(block, "double_buffer_scope", 0)
        # A step consists of: each operand into registers, then into shared memory, and the products.
        stages, order = [0, 0, 0, 0, 1], [0, 3, 1, 4, 2]
        if self.tile.depth > SIDE and not self.fragments.is_single:
            # Fragments are loaded one product ahead, the first ones in the previous step.
            schedule.annotate(products, "software_pipeline_stage", [0, 0, 1])
            schedule.annotate(products, "software_pipeline_order", [0, 1, 2])
            stages, order = [0, 0, 0, 0, 0, 1, 1], [0, 3, 1, 4, 5, 2, 6]
        schedule.annotate(steps, "software_pipeline_stage", stages)
        schedule.annotate(steps, "software_pipeline_order", order)

    def _write_by_warp(self, written: Any) -> None:
        """Write a warp's results from shared memory to the output, with all its threads."""
        schedule, tile = self.schedule, self.tile
        row, column = schedule.get_loops(written)[-2:]
        results_per_thread = tile.rows * tile.columns // tile.threads
        lanes = math.gcd(results_per_thread, tile.columns // tile.column_warps, self.result_lanes)
        _, thread, lane = schedule.split(schedule.fuse(row, column), [None, WARP, lanes])
        schedule.bind(thread, "threadIdx.x")
        schedule.vectorize(lane)
