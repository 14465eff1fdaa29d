"""Schedule products of matrices with few vectors on GPUs: adjacent threads share a sum.

Squeeze-and-excite layers have 1×1 convolutions of single positions, and the last one's results scale whole feature maps.
TVM's rule lets the threads of few work groups scale all of them. Here, each work group scales a part of a feature map,
and computes the short sum for it again.
"""

import math
from dataclasses import dataclass
from typing import Any

import tvm

from tvmake.ir.dimensions import is_known
from tvmake.targets.cpu.schedules.accesses import Contraction, contraction, extent, is_dynamic, step, uses
from tvmake.targets.gpu.blocks import read_reduction, single_reduction
from tvmake.targets.gpu.epilogue import inline_producers, is_unit, read_indices, repeated_axes
from tvmake.targets.gpu.few_rows.shared_rows import share_rows, threads_of_row
from tvmake.targets.gpu.machine import gpu
from tvmake.targets.gpu.products import SMALLEST
from tvmake.targets.gpu.ranges.size_ranges import Choice, Parameters

from tvm.s_tir.dlight.base import ScheduleRule  # isort: skip

SHORTEST = 16
"""Length of a sum below which a single thread is as fast."""

SCALED = 4
"""Results that a thread computes with the same sum; more after longer sums."""


class MatrixVectors(ScheduleRule):
    """Kernels with one matmul of few rows or columns, whose sum is contiguous, and element-wise blocks around it."""

    def __init__(self, shape: tuple[int, int] | None = None):
        """
        Args:
            shape: threads of a sum, and rows of a work group or results of a thread; None chooses them.
        """
        self.shape = shape

    def apply(self, func: Any, target: "tvm.target.Target", tunable: bool) -> Any:
        """A schedule; None for other kernels."""
        match = _match(func, target)
        if match is None or (self.shape is None and (match.is_dynamic or not match.has_few)):
            return None
        shape = self.shape or match.shape
        if match.scaled is None:
            share_rows(match.schedule, match.block, len(match.contracted.reduced), shape)
        else:
            _scale(match.schedule, match.block, match.scaled, shape)
        return match.schedule

    def choose(self, func: Any, target: "tvm.target.Target") -> Choice | None:
        """See :class:`~tvmake.targets.gpu.ranges.size_ranges.SizedRule`."""
        kernel = read_reduction(func)
        contracted = contraction(kernel[0].get(kernel[1])) if kernel is not None else None
        if contracted is None or not _is_suitable(contracted):
            return None
        match = _match(func, target)
        return Choice(match.shape) if match is not None and (match.has_few or match.scaled is not None) else None

    def with_parameters(self, parameters: Parameters) -> "MatrixVectors":
        """See :class:`~tvmake.targets.gpu.ranges.size_ranges.SizedRule`."""
        threads, rows = parameters
        return MatrixVectors((threads, rows))


@dataclass(frozen=True)
class _Match:
    """A suitable kernel."""

    schedule: "tvm.s_tir.Schedule"
    block: Any
    contracted: Contraction
    has_few: bool
    """Whether one operand has few vectors."""
    scaled: Any | None
    """The block that computes several results with each sum, or None."""
    shape: tuple[int, int]
    """As for :class:`MatrixVectors`."""

    @property
    def is_dynamic(self) -> bool:
        """Whether the kernel has dynamic dimensions."""
        return any(map(is_dynamic, self.contracted.block.iter_vars))


def _match(func: Any, target: "tvm.target.Target") -> _Match | None:
    """A kernel without kernel windows whose operands are contiguous along the sum; None for others."""
    match = single_reduction(func, flattens=False)
    if match is None:
        return None
    schedule, block = match
    inline_producers(schedule, block)
    contracted = contraction(schedule.get(block))
    if contracted is None or not _is_suitable(contracted):
        return None
    unit, length = gpu(target), math.prod(map(extent, contracted.reduced))
    consumers = schedule.get_consumers(block)
    scaled = [axis.dom.extent for axis in repeated_axes(schedule, block, consumers[0])] if len(consumers) == 1 else []
    if scaled:
        if not all(map(is_known, scaled)):
            return None
        results = math.prod(map(int, scaled))
        threads = min(unit.threads, max(32, 1 << (results - 1).bit_length()))
        each = min(max(SCALED, -(-length // threads)), -(-results // threads))
        return _Match(schedule, block, contracted, _has_few(contracted), consumers[0], (threads, each))
    if length < SHORTEST:
        return None
    shape = threads_of_row(unit, math.prod(map(extent, contracted.spatial)), length)
    return _Match(schedule, block, contracted, _has_few(contracted), None, shape)


def _is_suitable(contracted: Contraction) -> bool:
    """Whether both operands are contiguous along the sum, and none has kernel windows."""
    axes = [axis for axis in contracted.block.iter_vars if not is_unit(axis)]
    sums = [axis for axis in contracted.reduced if not is_unit(axis)]
    if not sums or any(map(is_dynamic, sums)) or not all(_is_along(load, sums[-1]) for load in contracted.operands):
        return False
    indices = [index for load in contracted.operands for index in load.indices]
    return all(sum(uses([index], axis) for axis in axes) <= 1 for index in indices)


def _has_few(contracted: Contraction) -> bool:
    """Whether one operand has few vectors."""
    used = [[uses(load.indices, axis) for load in contracted.operands] for axis in contracted.spatial]
    sides = [
        math.prod(extent(axis) for axis, by in zip(contracted.spatial, used, strict=True) if by[side] and not all(by))
        for side in (0, 1)
    ]
    return min(sides) < SMALLEST


def _is_along(load: Any, axis: Any) -> bool:
    """Whether a load reads adjacent values along an axis."""
    indices = [
        index
        for index, size in zip(load.indices, load.source.shape, strict=True)
        if not is_known(size) or int(size) > 1
    ]
    return bool(indices) and step(indices[-1], axis) == 1 and not uses(indices[:-1], axis)


def _scale(schedule: Any, block: Any, consumer: Any, shape: tuple[int, int]) -> None:
    """Compute the results of a sum by several work groups, each with its own sum.

    Raises:
        ScheduleError: a block before the results cannot be inlined.
        ValueError: the results of a sum are not adjacent.
    """
    threads, each = shape
    for producer in schedule.get_producers(consumer):
        if not schedule.get(producer).same_as(schedule.get(block)):
            inline_producers(schedule, producer)
            schedule.compute_inline(producer)
    scaled = repeated_axes(schedule, block, consumer)
    axes, loops = schedule.get(consumer).iter_vars, schedule.get_loops(consumer)
    first = next(number for number, axis in enumerate(axes) if axis.var.same_as(scaled[0].var))
    indices = read_indices(schedule, block, consumer)
    if any(uses(indices, axis) and not is_unit(axis) for axis in axes[first:]):
        raise ValueError("results of a sum that are not adjacent")
    parts, own_results, lanes = schedule.split(schedule.fuse(*loops[first:]), [None, each, threads])
    group = schedule.fuse(*loops[:first], parts)
    schedule.bind(group, "blockIdx.x")
    schedule.bind(lanes, "threadIdx.x")
    schedule.reorder(lanes, own_results)
    schedule.compute_at(block, group, preserve_unit_loops=True)
    schedule.set_scope(block, 0, "local")
    inner = schedule.get_loops(block)[1:]
    reduced = [
        loop
        for loop, axis in zip(inner, schedule.get(block).iter_vars, strict=True)
        if axis.iter_type == tvm.tirx.IterVar.CommReduce
    ]
    _, terms = schedule.split(schedule.fuse(*reduced), [None, threads])
    schedule.bind(terms, "threadIdx.x")
