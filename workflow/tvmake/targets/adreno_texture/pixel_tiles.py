"""Schedule convolutions in blocks of four channels: each thread computes neighbouring pixels of several blocks.

A thread reuses feature map values for all its blocks, and weights for all its pixels; it reads both as vectors of four
values. Padding is computed when pixels are read. (dlight's rule for Adreno gives every thread one pixel of eight
blocks. Its work groups always have 16×16 pixels, and padding is a separate pass over memory.)
"""

import math
from typing import Any

import tvm

from tvmake.targets.cpu.schedules.accesses import contraction, extent, is_fixed, is_injective
from tvmake.targets.gpu.epilogue import inline_consumers, inline_producers, join_epilogues

from tvm.s_tir.dlight import analysis  # isort: skip
from tvm.s_tir.dlight.base import ScheduleRule  # isort: skip

CONVOLUTION = "conv2d_NCHWc_OIHWo"
"""The block name of :func:`tvmake.targets.adreno_texture.convolution.conv2d_nchw4c`."""

LANES = 4

TILES = ((4, 2), (4, 1), (2, 2), (2, 1), (1, 1))
"""Pixels and blocks of a thread, the largest tile first."""

ENOUGH_THREADS = 16384
"""A phone's GPU has about a thousand lanes, and needs several threads per lane to hide memory latency."""

THREADS = 64
"""Threads of a work group: one wave."""


class PixelTiles(ScheduleRule):
    """Tiles for kernels with one convolution in blocks of channels and element-wise blocks around it."""

    def apply(self, func: Any, target: "tvm.target.Target", tunable: bool) -> Any:
        """A schedule for such a kernel; None for others."""
        if not isinstance(func, tvm.tirx.PrimFunc):
            return None
        schedule = tvm.s_tir.Schedule(func)
        join_epilogues(schedule)
        blocks = schedule.get_child_blocks(analysis.get_root_block(schedule))
        sums = [block for block in blocks if not is_injective(schedule.get(block))]
        if len(sums) != 1 or CONVOLUTION not in str(schedule.get(sums[0]).name_hint):
            return None
        if not all(is_fixed(schedule.get(block)) for block in blocks):
            return None
        (block,) = sums
        reduction = contraction(schedule.get(block))
        axes = list(schedule.get(block).iter_vars)
        if reduction is None or len(axes) != 8 or extent(axes[4]) != LANES or extent(axes[5]) % LANES:
            return None
        data, weights = reduction.operands
        if data.source.same_as(weights.source) or any(_depends(index, axes[1].var) for index in data.indices):
            return None  # in grouped convolutions, the output block determines the input channels
        _schedule(schedule, block, [extent(axis) for axis in axes])
        return schedule


def _depends(index: Any, variable: Any) -> bool:
    return any(free_var.same_as(variable) for free_var in tvm.tirx.analysis.undefined_vars(index))


def tile(batch: int, blocks: int, height: int, width: int) -> tuple[int, int]:
    """Pixels and blocks of a thread: the largest tile that divides the extents and leaves enough threads."""
    results = batch * blocks * height * width
    return next(
        (pixels, channels)
        for pixels, channels in TILES
        if (pixels, channels) == TILES[-1]
        or (width % pixels == 0 and blocks % channels == 0 and results // (pixels * channels) >= ENOUGH_THREADS)
    )


def _schedule(schedule: Any, block: Any, extents: list[int]) -> None:
    pixels, own_blocks = tile(*extents[:4])
    batch, blocks, row, column, lane, channel, window_row, window_column = schedule.get_loops(block)
    blocks, each_block = schedule.split(blocks, [None, own_blocks])
    column, each_pixel = schedule.split(column, [None, pixels])
    channel, channel_lane = schedule.split(channel, [None, LANES])
    schedule.reorder(
        batch, blocks, row, column, channel, window_row, window_column, channel_lane, each_block, each_pixel, lane
    )
    outer = schedule.fuse(batch, blocks, row, column)
    groups, threads = schedule.split(outer, [None, min(THREADS, math.prod(extents[:4]) // (pixels * own_blocks))])
    schedule.bind(groups, "blockIdx.x")
    schedule.bind(threads, "threadIdx.x")
    for read, loop in ((0, window_column), (1, channel_lane)):
        local = schedule.cache_read(block, read, "local")
        schedule.compute_at(local, loop, preserve_unit_loops=True)
        inline_producers(schedule, local)
        *outer_loops, last = schedule.get_loops(local)
        schedule.vectorize(last)
        for outer_loop in outer_loops[-2:]:
            schedule.unroll(outer_loop)
    written = schedule.cache_write(block, 0, "local")
    schedule.reverse_compute_at(written, threads, preserve_unit_loops=True)
    inline_consumers(schedule, written)
    schedule.vectorize(schedule.get_loops(written)[-1])
    for loop in (channel_lane, each_block, each_pixel):
        schedule.unroll(loop)
    schedule.vectorize(lane)
    start = schedule.decompose_reduction(block, channel)
    schedule.vectorize(schedule.get_loops(start)[-1])
