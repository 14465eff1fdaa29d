"""A schedule for convolutions in blocks of four channels: a thread computes neighbouring pixels of some blocks.

What a thread reads of a picture is used for all its blocks, and weights for all its pixels; both come four values at a time. The
padding is made as pixels are read. (dlight's rule for Adreno gives every thread one pixel of eight blocks, its work groups have
16×16 pixels however few there are, and padding is a pass over memory of its own.)
"""

import math
from typing import Any

import tvm

from tvmake.targets.cpu.schedules.accesses import contraction, extent, is_fixed, is_injective
from tvmake.targets.gpu.epilogue import inline_consumers, inline_producers, join_epilogues

from tvm.s_tir.dlight import analysis  # isort: skip
from tvm.s_tir.dlight.base import ScheduleRule  # isort: skip

CONVOLUTION = "conv2d_NCHWc_OIHWo"
"""What blocks of :func:`tvmake.targets.adreno_texture.convolution.conv2d_nchw4c` are called."""

LANES = 4

TILES = ((4, 2), (4, 1), (2, 2), (2, 1), (1, 1))
"""Pixels and blocks of a thread, the most first."""

ENOUGH_THREADS = 16384
"""A phone's GPU has about a thousand lanes, and needs several threads for each to hide how long memory takes."""

THREADS = 64
"""Of a work group: one wave."""


class PixelTiles(ScheduleRule):
    """Tiles for kernels of one convolution in blocks of channels, and element-wise blocks around it."""

    def apply(self, func: Any, target: "tvm.target.Target", tunable: bool) -> Any:
        """A schedule; None for other kernels."""
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
        taken = contraction(schedule.get(block))
        axes = list(schedule.get(block).iter_vars)
        if taken is None or len(axes) != 8 or extent(axes[4]) != LANES or extent(axes[5]) % LANES:
            return None
        data, weights = taken.operands
        if data.source.same_as(weights.source) or any(_depends(index, axes[1].var) for index in data.indices):
            return None  # of groups, the block decides what is read
        _schedule(schedule, block, [extent(axis) for axis in axes])
        return schedule


def _depends(index: Any, variable: Any) -> bool:
    return any(each.same_as(variable) for each in tvm.tirx.analysis.undefined_vars(index))


def tile(batch: int, blocks: int, height: int, width: int) -> tuple[int, int]:
    """Pixels and blocks of a thread: as many as leave enough threads, and divide what there is."""
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
        *others, last = schedule.get_loops(local)
        schedule.vectorize(last)
        for other in others[-2:]:
            schedule.unroll(other)
    written = schedule.cache_write(block, 0, "local")
    schedule.reverse_compute_at(written, threads, preserve_unit_loops=True)
    inline_consumers(schedule, written)
    schedule.vectorize(schedule.get_loops(written)[-1])
    for loop in (channel_lane, each_block, each_pixel):
        schedule.unroll(loop)
    schedule.vectorize(lane)
    start = schedule.decompose_reduction(block, channel)
    schedule.vectorize(schedule.get_loops(start)[-1])
