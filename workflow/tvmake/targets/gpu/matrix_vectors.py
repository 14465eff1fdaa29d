"""Schedule products of matrices with few vectors on GPUs: adjacent threads share a sum.

Squeeze-and-excite layers have 1×1 convolutions of single positions, and the last one's results scale whole feature maps.
TVM's rule lets the threads of few work groups scale all of them. Here, each work group scales a part of a feature map,
and computes the short sum for it again.
"""

import math
from typing import Any

import tvm

from tvmake.ir.dimensions import is_known
from tvmake.targets.cpu.schedules.accesses import Contraction, contraction, extent, is_dynamic, step, uses
from tvmake.targets.gpu.blocks import single_reduction
from tvmake.targets.gpu.epilogue import inline_producers
from tvmake.targets.gpu.machine import gpu
from tvmake.targets.gpu.products import SMALLEST
from tvmake.targets.gpu.shared_rows import share_rows, threads_of_row

from tvm.s_tir.dlight.base import ScheduleRule  # isort: skip

SHORTEST = 16
"""Length of a sum below which a single thread is as fast."""

SCALED = 4
"""Results that a thread computes with the same sum; more after longer sums."""


class MatrixVectors(ScheduleRule):
    """Kernels with one matmul of few rows or columns, whose sum is contiguous, and element-wise blocks around it."""

    def apply(self, func: Any, target: "tvm.target.Target", tunable: bool) -> Any:
        """A schedule; None for other kernels."""
        match = single_reduction(func)
        if match is None:
            return None
        schedule, block = match
        inline_producers(schedule, block)
        contracted = contraction(schedule.get(block))
        if contracted is None or not _is_suitable(contracted):
            return None
        length = math.prod(map(extent, contracted.reduced))
        consumers = schedule.get_consumers(block)
        if len(consumers) == 1 and _is_scaled(schedule, block, consumers[0]):
            _scale(schedule, block, consumers[0], length, gpu(target).threads)
            return schedule
        if length < SHORTEST:
            return None
        rows = math.prod(map(extent, contracted.spatial))
        share_rows(schedule, block, len(contracted.reduced), threads_of_row(gpu(target), rows, length))
        return schedule


def _is_suitable(contracted: Contraction) -> bool:
    """Whether one operand has few vectors, along which both are contiguous, and none has kernel windows."""
    axes = [axis for axis in contracted.block.iter_vars if not (is_known(axis.dom.extent) and extent(axis) == 1)]
    sums = [axis for axis in contracted.reduced if extent(axis) > 1]
    if any(map(is_dynamic, axes)) or not sums:
        return False
    if any(sum(uses([index], axis) for axis in axes) > 1 for load in contracted.operands for index in load.indices):
        return False
    used = [[uses(load.indices, axis) for load in contracted.operands] for axis in contracted.spatial]
    sides = [
        math.prod(extent(axis) for axis, by in zip(contracted.spatial, used, strict=True) if by[side] and not all(by))
        for side in (0, 1)
    ]
    return min(sides) < SMALLEST and all(_is_along(load, sums[-1]) for load in contracted.operands)


def _is_along(load: Any, axis: Any) -> bool:
    """Whether a load reads adjacent values along an axis."""
    indices = [
        index
        for index, size in zip(load.indices, load.source.shape, strict=True)
        if not is_known(size) or int(size) > 1
    ]
    return bool(indices) and step(indices[-1], axis) == 1 and not uses(indices[:-1], axis)


def _is_scaled(schedule: Any, block: Any, consumer: Any) -> bool:
    """Whether a block computes several results with each sum."""
    sums = schedule.get(block).writes[0].source.shape
    return math.prod(map(int, schedule.get(consumer).writes[0].source.shape)) > math.prod(map(int, sums))


def _scale(schedule: Any, block: Any, consumer: Any, length: int, most: int) -> None:
    """Compute the results of a sum by several work groups, each with its own sum."""
    own = schedule.get(block).writes[0].source
    for producer in schedule.get_producers(consumer):
        if not schedule.get(producer).same_as(schedule.get(block)):
            inline_producers(schedule, producer)
            schedule.compute_inline(producer)
    statement = schedule.get(consumer)
    (read,) = [region for region in statement.reads if region.source.same_as(own)]
    indices = [part.min for part in read.region]
    loops = schedule.get_loops(consumer)
    is_outer = [uses(indices, axis) or extent(axis) == 1 for axis in statement.iter_vars]
    count = is_outer.index(False)
    if not all(is_outer[:count]) or any(uses(indices, axis) for axis in statement.iter_vars[count:]):
        raise ValueError("sums that are read across their results")
    results = math.prod(extent(axis) for axis in statement.iter_vars[count:])
    threads = min(most, max(32, 1 << (results - 1).bit_length()))
    each = min(max(SCALED, -(-length // threads)), -(-results // threads))
    outer = loops[:count] or [schedule.add_unit_loop(loops[0])]
    parts, own_results, lanes = schedule.split(schedule.fuse(*loops[count:]), [None, each, threads])
    group = schedule.fuse(*outer, parts)
    schedule.bind(group, "blockIdx.x")
    schedule.bind(lanes, "threadIdx.x")
    schedule.reorder(lanes, own_results)
    schedule.compute_at(block, group, preserve_unit_loops=True)
    schedule.set_scope(block, 0, "local")
    kinds = schedule.get(block).iter_vars
    inner = schedule.get_loops(block)[1:]
    reduced = [loop for loop, axis in zip(inner, kinds, strict=True) if axis.iter_type == tvm.tirx.IterVar.CommReduce]
    _, terms = schedule.split(schedule.fuse(*reduced), [None, threads])
    schedule.bind(terms, "threadIdx.x")
