"""Pad matmuls of 8-bit integers with awkward extents by a few rows and columns of zeros.

Dot-product instructions need whole vectors. Other matmuls are padded within their tiles
(:mod:`~tvmake.targets.cpu.schedules.tiled`).
"""

from typing import Any

import tvm

from tvmake.ir.expressions import dtype_name
from tvmake.targets.cpu.schedules.accesses import Contraction, contraction, extent, loads_in, uses
from tvmake.targets.cpu.schedules.machine import Machine
from tvmake.targets.cpu.schedules.tiles import divisors

HEIGHTS = range(4, 9)
"""Worthwhile numbers of rows of a tile."""

FEW = 12
"""Rows that a tile takes without padding."""

SMALLEST_SUM = 8
"""Length of the reduction below which the copies cost more than they gain."""


def pad(schedule: Any, block: Any, machine: Machine) -> bool:
    """Pad a contraction's lanes and rows that have no good divisors; returns whether it padded.

    Only contractions whose operands are indexed by axes alone can be padded (``Schedule.pad_einsum``), so no
    convolutions.
    """
    reduction = contraction(schedule.get(block))
    if reduction is None or not _is_einsum(reduction) or min(map(extent, reduction.reduced)) < SMALLEST_SUM:
        return False
    if not machine.dots or dtype_name(reduction.block.body.buffer.ty) != "int32":
        return False
    axes = list(reduction.block.iter_vars)
    multiples = [1] * len(axes)
    lanes = reduction.lane_axis
    full = machine.lanes(machine.bits(reduction.block.body.buffer))
    for position, axis in enumerate(axes):
        if axis.iter_type != 0:
            continue
        if lanes is not None and axis.var.same_as(lanes.var):
            multiples[position] = full if extent(axis) > full and extent(axis) % max(2, full // 4) else 1
        elif lanes is not None and _is_row(reduction, axis):
            multiples[position] = _height(extent(axis))
    if all(multiple == 1 for multiple in multiples):
        return False
    schedule.pad_einsum(block, multiples)
    return True


def padded_weights(schedule: Any, block: Any, weights: list[Any]) -> list[Any]:
    """The buffers of padded weights that a contraction reads."""
    buffers = []
    for producer in schedule.get_producers(block):
        statement = schedule.get(producer)
        if all(any(load.source.same_as(weight) for weight in weights) for load in loads_in(statement.body)):
            buffers.append(statement.body.buffer)
    return buffers


def _is_einsum(reduction: Contraction) -> bool:
    # Padding blocks are named after their operands, and need unique names.
    names = {str(load.source.name) for load in reduction.operands}
    return len(names) == len(reduction.operands) and all(
        isinstance(index, tvm.ir.Var) for load in (*reduction.operands, reduction.block.body) for index in load.indices
    )


def _is_row(reduction: Contraction, axis: Any) -> bool:
    """Whether results along an axis share their vector operands."""
    vectors = [load for load in reduction.operands if uses(load.indices, reduction.lane_axis)]
    return not any(uses(load.indices, axis) for load in vectors)


def _height(rows: int) -> int:
    """The multiple to pad rows to; 1 if rows have a good divisor."""
    if rows <= FEW or any(divisor in HEIGHTS for divisor in divisors(rows)):
        return 1
    return min(HEIGHTS, key=lambda height: (-(-rows // height) * height, -height))
