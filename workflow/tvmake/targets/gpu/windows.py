"""A schedule for sums over windows on GPUs: depthwise and grouped convolutions, and poolings.

A thread computes some neighbouring results, with what follows on each, and makes the padding as it reads.
"""

import math
from typing import Any

import tvm

from tvmake.targets.cpu.schedules.accesses import SPATIAL, contraction, extent, innermost
from tvmake.targets.gpu.blocks import with_one_sum
from tvmake.targets.gpu.epilogue import inline_consumers, inline_producers
from tvmake.targets.gpu.machine import Gpu, gpu

from tvm.s_tir.dlight.base import ScheduleRule  # isort: skip

THREADS = 128
"""Of a work group."""

LARGEST = 64
"""Elements of a window: larger ones are summed up by several threads together."""

FEWEST = 2048
"""Results, below which threads should share a sum."""

BUSY = 512
"""Threads for each core that hide how long memory takes."""

UNROLLED = 128
"""Steps that a window's loops are written out to."""


class Windows(ScheduleRule):
    """Threads for kernels with one sum over windows, and element-wise blocks around it."""

    def apply(self, func: Any, target: "tvm.target.Target", tunable: bool) -> Any:
        """A schedule; None for other kernels."""
        found = with_one_sum(func)
        if found is None:
            return None
        schedule, block = found
        statement = schedule.get(block)
        spatial = [axis for axis in statement.iter_vars if axis.iter_type == SPATIAL]
        steps = math.prod(extent(axis) for axis in statement.iter_vars if axis.iter_type != SPATIAL)
        results = math.prod(map(extent, spatial))
        if not isinstance(statement.body, tvm.tirx.BufferStore) or results < FEWEST:
            return None
        if steps > LARGEST and contraction(statement) is None:
            return None
        _schedule(schedule, block, spatial, steps, _neighbours(gpu(target), statement, spatial, results))
        return schedule


def _neighbours(unit: Gpu, statement: Any, spatial: list[Any], results: int) -> int:
    """How many results a thread computes: more where there are threads enough without."""
    axis = innermost(statement.body.indices, spatial)
    if axis is None or not axis.var.same_as(spatial[-1].var):
        return 1
    fitting = (count for count in (4, 2) if extent(axis) % count == 0 and results >= unit.cores * BUSY * count)
    return next(fitting, 1)


def _schedule(schedule: Any, block: Any, spatial: list[Any], steps: int, neighbours: int) -> None:
    inline_producers(schedule, block)
    written = schedule.cache_write(block, 0, "local")
    loops = schedule.get_loops(block)
    kinds = [axis.iter_type == SPATIAL for axis in schedule.get(block).iter_vars]
    outer = [loop for loop, is_spatial in zip(loops, kinds, strict=True) if is_spatial]
    sums = [loop for loop, is_spatial in zip(loops, kinds, strict=True) if not is_spatial]
    last, together = schedule.split(outer[-1], [None, neighbours])
    schedule.reorder(*outer[:-1], last, *sums, together)
    fused = schedule.fuse(*outer[:-1], last)
    groups, threads = schedule.split(fused, [None, THREADS])
    schedule.bind(groups, "blockIdx.x")
    schedule.bind(threads, "threadIdx.x")
    schedule.reverse_compute_at(written, threads, preserve_unit_loops=True)
    inline_consumers(schedule, written)
    schedule.unroll(together)
    if steps * neighbours <= UNROLLED:
        for loop in sums:
            schedule.unroll(loop)
    schedule.decompose_reduction(block, sums[0])
