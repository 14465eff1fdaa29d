"""Schedule contiguous extrema on GPUs, such as those of rows of scores: adjacent threads share a row.

TVM's rules for reductions accept only sums; with its last rule a single thread computes a row, in memory.
"""

import math
from typing import Any

import tvm

from tvmake.targets.cpu.schedules.accesses import REDUCTION, SPATIAL, extent, is_contiguous, loads_in
from tvmake.targets.gpu.blocks import single_reduction
from tvmake.targets.gpu.epilogue import inline_producers
from tvmake.targets.gpu.few_rows.shared_rows import share_rows, threads_of_row
from tvmake.targets.gpu.machine import gpu
from tvmake.targets.gpu.ranges.size_ranges import Choice, Parameters

from tvm.s_tir.dlight.base import ScheduleRule  # isort: skip

SMALLEST = 16
"""Length of a row below which a single thread is as fast."""


class Extrema(ScheduleRule):
    """Kernels with one contiguous maximum or minimum, and element-wise blocks around it."""

    def __init__(self, shape: tuple[int, int] | None = None):
        """
        Args:
            shape: threads per row, and rows of a work group; None chooses them.
        """
        self.shape = shape

    def apply(self, func: Any, target: "tvm.target.Target", tunable: bool) -> Any:
        """A schedule; None for other kernels."""
        match = self._match(func, target)
        if match is None:
            return None
        schedule, block, reduced, shape = match
        share_rows(schedule, block, reduced, shape)
        return schedule

    def choose(self, func: Any, target: "tvm.target.Target") -> Choice | None:
        """See :class:`~tvmake.targets.gpu.ranges.size_ranges.SizedRule`."""
        match = self._match(func, target)
        return Choice(match[-1]) if match is not None else None

    def with_parameters(self, parameters: Parameters) -> "Extrema":
        """See :class:`~tvmake.targets.gpu.ranges.size_ranges.SizedRule`."""
        threads, rows = parameters
        return Extrema((threads, rows))

    def _match(
        self, func: Any, target: "tvm.target.Target"
    ) -> tuple["tvm.s_tir.Schedule", Any, int, tuple[int, int]] | None:
        """A schedule, the block and number of reduced axes, and the threads per row and rows of a work group."""
        match = single_reduction(func)
        if match is None:
            return None
        schedule, block = match
        if not isinstance(schedule.get(block).body, tvm.tirx.BufferStore):
            return None
        inline_producers(schedule, block)
        statement = schedule.get(block)
        store = statement.body
        if not isinstance(store.value, (tvm.tirx.Max, tvm.tirx.Min)):
            return None
        spatial = [axis for axis in statement.iter_vars if axis.iter_type == SPATIAL]
        reduced = [axis for axis in statement.iter_vars if axis.iter_type == REDUCTION]
        rows, length = (math.prod(map(extent, axes)) for axes in (spatial, reduced))
        loads = [load for load in loads_in(store.value) if not load.source.same_as(store.buffer)]
        is_short = length < SMALLEST and self.shape is None
        if is_short or len(loads) != 1 or not is_contiguous(loads[0], reduced[-1]):
            return None
        return schedule, block, len(reduced), self.shape or threads_of_row(gpu(target), rows, length)
