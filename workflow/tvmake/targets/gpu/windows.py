"""Schedule reductions over kernel windows on GPUs: depthwise and grouped convolutions, and poolings.

A thread computes several neighbouring results with their epilogue, and computes padding when it reads.
"""

import math
from typing import Any

import tvm

from tvmake.ir.dimensions import is_known
from tvmake.targets.cpu.schedules.accesses import SPATIAL, contraction, extent, innermost, is_dynamic
from tvmake.targets.gpu.blocks import read_reduction, single_reduction
from tvmake.targets.gpu.epilogue import inline_consumers, inline_producers
from tvmake.targets.gpu.machine import Gpu, gpu
from tvmake.targets.gpu.ranges.size_ranges import Choice, Parameters

from tvm.s_tir.dlight.base import ScheduleRule  # isort: skip

THREADS = 128
"""Threads of a work group."""

LARGEST = 64
"""Maximum elements of a window; several threads together reduce larger ones."""

FEWEST = 2048
"""Results below which threads should share a reduction."""

UNROLLED = 128
"""Maximum number of unrolled steps."""


class Windows(ScheduleRule):
    """Threads for kernels with one reduction over windows, and element-wise blocks around it."""

    def __init__(self, neighbours: int | None = None):
        """
        Args:
            neighbours: results per thread; None chooses them.
        """
        self.neighbours = neighbours

    def apply(self, func: Any, target: "tvm.target.Target", tunable: bool) -> Any:
        """A schedule; None for other kernels."""
        match = single_reduction(func)
        if match is None:
            return None
        schedule, block = match
        statement = schedule.get(block)
        spatial, results, steps = _sizes(statement)
        if not _is_suitable(statement, steps) or (results < FEWEST and self.neighbours is None):
            return None
        neighbours = self.neighbours or _neighbours(gpu(target), statement, spatial, results)
        _schedule(schedule, block, spatial, steps, neighbours)
        return schedule

    def choose(self, func: Any, target: "tvm.target.Target") -> Choice | None:
        """See :class:`~tvmake.targets.gpu.ranges.size_ranges.SizedRule`."""
        match = read_reduction(func)
        if match is None:
            return None
        statement = match[0].get(match[1])
        spatial, results, steps = _sizes(statement)
        if not _is_suitable(statement, steps) or results < FEWEST:
            return None
        own = _neighbours(gpu(target), statement, spatial, results)
        others = [(count,) for count in _possible_neighbours(statement, spatial) if count != own]
        return Choice((own,), further=lambda: others)

    def with_parameters(self, parameters: Parameters) -> "Windows":
        """See :class:`~tvmake.targets.gpu.ranges.size_ranges.SizedRule`."""
        return Windows(*parameters)


def _sizes(statement: Any) -> tuple[list[Any], int, int]:
    """The axes of the results, the number of results, and the values of each window."""
    spatial = [axis for axis in statement.iter_vars if axis.iter_type == SPATIAL]
    steps = math.prod(extent(axis) for axis in statement.iter_vars if axis.iter_type != SPATIAL)
    return spatial, math.prod(map(extent, spatial)), steps


def _is_suitable(statement: Any, steps: int) -> bool:
    is_short = steps <= LARGEST or contraction(statement) is not None
    return isinstance(statement.body, tvm.tirx.BufferStore) and is_short


def _neighbours(unit: Gpu, statement: Any, spatial: list[Any], results: int) -> int:
    """Number of results per thread: several if there are enough threads anyway."""
    possible = _possible_neighbours(statement, spatial)
    return next((count for count in possible if count == 1 or results >= unit.busy_threads * count), 1)


def _possible_neighbours(statement: Any, spatial: list[Any]) -> list[int]:
    """The numbers of results per thread that divide a row, the largest first."""
    axis = innermost(statement.body.indices, spatial)
    if axis is None or not axis.var.same_as(spatial[-1].var) or is_dynamic(axis):
        return [1]
    return [count for count in (4, 2, 1) if extent(axis) % count == 0]


def _schedule(schedule: Any, block: Any, spatial: list[Any], steps: int, neighbours: int) -> None:
    inline_producers(schedule, block)
    written = schedule.cache_write(block, 0, "local")
    loops = schedule.get_loops(block)
    kinds = [axis.iter_type == SPATIAL for axis in schedule.get(block).iter_vars]
    outer = [loop for loop, is_spatial in zip(loops, kinds, strict=True) if is_spatial]
    sums = [loop for loop, is_spatial in zip(loops, kinds, strict=True) if not is_spatial]
    last, results_loop = schedule.split(outer[-1], [None, neighbours])
    schedule.reorder(*outer[:-1], last, *sums, results_loop)
    fused = schedule.fuse(*outer[:-1], last)
    groups, threads = schedule.split(fused, [None, THREADS])
    schedule.bind(groups, "blockIdx.x")
    schedule.bind(threads, "threadIdx.x")
    schedule.reverse_compute_at(written, threads, preserve_unit_loops=True)
    inline_consumers(schedule, written)
    schedule.unroll(results_loop)
    if steps * neighbours <= UNROLLED and all(is_known(schedule.get(loop).extent) for loop in sums):
        for loop in sums:
            schedule.unroll(loop)
    schedule.decompose_reduction(block, sums[0])
