"""Products of matrices of small integers with awkward extents, computed with a few rows and columns of zeros more.

Instructions for such products take whole vectors. Other products are padded within their tiles (:mod:`~tvmake.targets.cpu.schedules.tiled`).
"""

from typing import Any

import tvm

from tvmake.ir.expressions import dtype_name
from tvmake.targets.cpu.schedules.accesses import Contraction, contraction, extent, loads_in, uses
from tvmake.targets.cpu.schedules.machine import Machine
from tvmake.targets.cpu.schedules.tiles import divisors

HEIGHTS = range(4, 9)
"""Rows of a tile that pay."""

FEW = 12
"""Rows that a tile takes as they are."""

SMALLEST_SUM = 8
"""Products below which the copies cost more than they bring."""


def pad(schedule: Any, block: Any, machine: Machine) -> bool:
    """Pad a contraction's lanes and rows where they have no good divisors; whether there was need.

    Only products whose operands are indexed by axes alone can be padded (``Schedule.pad_einsum``): no convolutions.
    """
    taken = contraction(schedule.get(block))
    if taken is None or not _is_einsum(taken) or min(map(extent, taken.reduced)) < SMALLEST_SUM:
        return False
    if not machine.dots or dtype_name(taken.block.body.buffer.ty) != "int32":
        return False
    axes = list(taken.block.iter_vars)
    multiples = [1] * len(axes)
    lanes = taken.lane_axis
    full = machine.lanes(machine.bits(taken.block.body.buffer))
    for place, axis in enumerate(axes):
        if axis.iter_type != 0:
            continue
        if lanes is not None and axis.var.same_as(lanes.var):
            multiples[place] = full if extent(axis) > full and extent(axis) % max(2, full // 4) else 1
        elif lanes is not None and _is_row(taken, axis):
            multiples[place] = _height(extent(axis))
    if all(multiple == 1 for multiple in multiples):
        return False
    schedule.pad_einsum(block, multiples)
    return True


def padded_weights(schedule: Any, block: Any, weights: list[Any]) -> list[Any]:
    """The buffers of padded weights that a contraction reads."""
    found = []
    for producer in schedule.get_producers(block):
        statement = schedule.get(producer)
        if all(any(load.source.same_as(weight) for weight in weights) for load in loads_in(statement.body)):
            found.append(statement.body.buffer)
    return found


def _is_einsum(taken: Contraction) -> bool:
    # Blocks that pad are named after what they pad, and have to have names of their own.
    names = {str(load.source.name) for load in taken.operands}
    return len(names) == len(taken.operands) and all(
        isinstance(index, tvm.ir.Var) for load in (*taken.operands, taken.block.body) for index in load.indices
    )


def _is_row(taken: Contraction, axis: Any) -> bool:
    """Whether results along an axis share the vectors that they are made of."""
    vectors = [load for load in taken.operands if uses(load.indices, taken.lane_axis)]
    return not any(uses(load.indices, axis) for load in vectors)


def _height(rows: int) -> int:
    """The multiple to pad rows to: 1 where they have a good divisor."""
    if rows <= FEW or any(divisor in HEIGHTS for divisor in divisors(rows)):
        return 1
    return min(HEIGHTS, key=lambda height: (-(-rows // height) * height, -height))
