"""Schedule element-wise blocks, contiguous reductions and all other blocks: vectorised loops on all cores."""

import math
from typing import Any

import tvm

from tvmake.ir.dimensions import is_known
from tvmake.targets.cpu.schedules.accesses import (
    SPATIAL,
    extent,
    fuse_outer,
    innermost,
    is_contiguous,
    is_dynamic,
    loads_in,
    uses,
)
from tvmake.targets.cpu.schedules.machine import Machine
from tvmake.targets.cpu.schedules.tiled import WORK_OF_A_THREAD
from tvmake.targets.cpu.schedules.tiles import divisors
from tvmake.targets.cpu.schedules.vectors import lanes_of, vectorize
from tvmake.targets.cpu.vectors.incomplete_vectors import LENGTH
from tvmake.targets.cpu.vectors.partial_tiles import ADDED, LANES, SINGLE
from tvmake.targets.cpu.vectors.split_concat_loops import SEGMENTS, ends

VALUES_OF_A_THREAD = 1 << 14
"""Minimum number of values for which an element-wise block runs on several cores."""

SIDE = 32
"""Side of the tiles of a transposition, in values: one or two cache lines, fully used while they are in the cache."""

CHAINS = 8
"""Independent sums that hide the latency of a core's additions."""


def elementwise(schedule: Any, block: Any, machine: Machine) -> None:
    """Vectorise along memory and run the other loops on all cores; transpose in square tiles that fit the cache."""
    statement = schedule.get(block)
    *outer, last = schedule.get_loops(block)
    across = _transposed_axis(statement) if len(outer) + 1 == len(statement.iter_vars) else None
    within = []
    if not hasattr(statement.body, "buffer"):
        outer.append(last)
    elif parts := ends(statement):
        schedule.annotate(last, SEGMENTS, [*parts, machine.lanes(machine.bits(statement.body.buffer))])
    else:
        if across is not None:
            sides = [SIDE] if is_dynamic(statement.iter_vars[across]) else divisors(extent(statement.iter_vars[across]))
            side = max(divisor for divisor in sides if divisor <= SIDE)
            strip, line = schedule.split(outer.pop(across), [None, side])
            outer, within = [*outer, strip], [line]
        vectors = vectorize(schedule, last, machine, statement.body.buffer)
        if within:
            schedule.reorder(*outer, vectors, *within)
        if LENGTH not in schedule.get(vectors).annotations:
            outer.append(vectors)
    if not outer:
        return
    fused = fuse_outer(schedule, outer)
    if math.prod(map(extent, statement.iter_vars)) >= VALUES_OF_A_THREAD:
        schedule.parallel(fused)


def _transposed_axis(statement: Any) -> int | None:
    """The axis other than the last one along which an operand is contiguous, if the block transposes it."""
    *outer_axes, last = statement.iter_vars
    for load in loads_in(statement.body):
        axis = innermost(load.indices, statement.iter_vars)
        if axis is not None and not axis.same_as(last) and extent(last) > 1 and uses(load.indices, last):
            return next(position for position, other in enumerate(outer_axes) if other.same_as(axis))
    return None


def reduction(schedule: Any, block: Any, machine: Machine) -> None:
    """Run results on all cores; contiguous sums use vectors of partial results, others run several sums at once."""
    statement = schedule.get(block)
    loops = schedule.get_loops(block)
    results = [loop for loop, axis in zip(loops, statement.iter_vars, strict=True) if axis.iter_type == SPATIAL]
    steps = [loop for loop, axis in zip(loops, statement.iter_vars, strict=True) if axis.iter_type != SPATIAL]
    is_large = math.prod(map(extent, statement.iter_vars)) >= WORK_OF_A_THREAD
    if not results:
        results = [schedule.add_unit_loop(steps[0])]
    schedule.reorder(*results, *steps)
    if not is_known(schedule.get(results[-1]).extent) and (width := lanes_of_results(statement, machine)) > 1:
        _reduce_in_lanes(schedule, block, results, steps, width, is_large)
        return
    outer = fuse_outer(schedule, results)
    lanes = lanes_of_sum(statement, machine)
    if lanes > 1:
        partial = PartialResults(schedule, block, steps, lanes, [outer])
        if is_large:
            schedule.parallel(partial.outer)
        partial.finish()
        return
    length = schedule.get(outer).extent
    chains = max(divisor for divisor in divisors(int(length)) if divisor <= CHAINS) if is_known(length) else 1
    outer, within = schedule.split(outer, [None, chains])
    if is_large:
        schedule.parallel(outer)
    if hasattr(statement.body, "buffer"):
        schedule.reorder(outer, *steps, within)
        schedule.unroll(within)
        schedule.decompose_reduction(block, steps[0])


def lanes_of_results(statement: Any, machine: Machine) -> int:
    """Number of results of a reduction in a vector; 1 if results or their operands are not adjacent."""
    if not isinstance(statement.body, tvm.tirx.BufferStore):
        return 1
    axis = innermost(statement.body.indices, [axis for axis in statement.iter_vars if axis.iter_type == SPATIAL])
    if axis is None or not all(is_contiguous(load, axis) for load in loads_in(statement.body.value)):
        return 1
    return machine.lanes(machine.bits(statement.body.buffer))


def _reduce_in_lanes(
    schedule: Any, block: Any, results: list[Any], steps: list[Any], width: int, is_large: bool
) -> None:
    """Reduce adjacent results along a dynamic dimension, the last loop's, one vector at a time."""
    vectors, lanes = schedule.split(results[-1], [None, width])
    schedule.reorder(*results[:-1], vectors, *steps, lanes)
    outer = fuse_outer(schedule, [*results[:-1], vectors])
    if is_large:
        schedule.parallel(outer)
    schedule.vectorize(lanes)
    schedule.annotate(lanes, LANES, ann_val=SINGLE)
    schedule.decompose_reduction(block, steps[0])


def lanes_of_sum(statement: Any, machine: Machine) -> int:
    """Number of partial results in a vector; 1 unless the innermost reduction axis is contiguous and divisible."""
    if not isinstance(statement.body, tvm.tirx.BufferStore):
        return 1
    loads = [load for load in loads_in(statement.body.value) if not load.source.same_as(statement.body.buffer)]
    axis = statement.iter_vars[-1]
    if axis.iter_type == SPATIAL or not loads or not all(is_contiguous(load, axis) for load in loads):
        return 1
    if not any(innermost(load.indices, [axis]) is not None for load in loads):
        return 1
    return lanes_of(extent(axis), machine.bits(statement.body.buffer), machine)


class PartialResults:
    """A sum with a vector of partial results for each result, which are added at the end."""

    def __init__(self, schedule: Any, block: Any, steps: list[Any], lanes: int, results: list[Any]):
        """
        Args:
            results: its loops over results, around the others.
        """
        self.schedule, self.block = schedule, block
        length = schedule.get(steps[-1]).extent
        self._is_dynamic = not is_known(length)
        _, within = schedule.split(steps[-1], [None, lanes])
        self._vector = schedule.rfactor(within, factor_axis=0)
        loops = schedule.get_loops(self._vector)
        self._around = len(results)
        # Not the other way round: a moved block loses the condition that ends an incomplete vector.
        schedule.reverse_compute_at(block, loops[self._around - 1], preserve_unit_loops=True)
        if not self._is_dynamic and int(length) % lanes:
            schedule.annotate(loops[-2], LENGTH, int(length))
        self.outer = loops[0]
        """The outermost loop over results."""

    def finish(self) -> None:
        """Vectorise, and split off the initial values; nothing can be scheduled afterwards."""
        loops = self.schedule.get_loops(self._vector)
        self.schedule.vectorize(loops[-1])
        if self._is_dynamic:
            self.schedule.annotate(loops[-1], LANES, ann_val=ADDED)
        first = self.schedule.decompose_reduction(self._vector, loops[self._around])
        self.schedule.vectorize(self.schedule.get_loops(first)[-1])
        self.schedule.decompose_reduction(self.block, self.schedule.get_loops(self.block)[self._around])
