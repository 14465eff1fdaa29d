"""Blocks that are computed where they are used, instead of a pass over memory of their own."""

import math
from typing import Any

import tvm
import tvm_ffi

from tvmake.targets.cpu.schedules.accesses import extent, is_injective, loads_in
from tvmake.targets.kernels.expression_size import LARGEST, MOST_CHOICES, nested_choices, nodes

CHEAP_SPREAD = 4
"""How many times more often than by itself a block with calls or divisions may be computed where it is used."""


def inline(schedule: Any, root: Any) -> None:
    """Put element-wise blocks into those that use them, as far as nothing is computed much more often for it."""
    while any(_inlined(schedule, block) for block in schedule.get_child_blocks(root)):
        pass


def _inlined(schedule: Any, block: Any) -> bool:
    producer = schedule.get(block)
    users = schedule.get_consumers(block)
    if not users or not is_injective(producer) or not isinstance(producer.body, tvm.tirx.BufferStore):
        return False
    if not all(_may_take(schedule.get(user), producer) for user in users):
        return False
    try:
        schedule.compute_inline(block)
    except tvm.s_tir.ScheduleError:
        return False
    return True


def _may_take(user: Any, block: Any) -> bool:
    """Whether a block may be computed within one of its users."""
    if not is_injective(user):
        return _is_copy(block)
    if nodes(block.body) * len(_loads_of(user, block)) + nodes(user.body) > LARGEST:
        return False
    choices = nested_choices(block.body)
    if nested_choices(user.body, lambda load: choices * load.source.same_as(block.body.buffer)) > MOST_CHOICES:
        return False
    return _is_cheap(block) or _size(user) <= CHEAP_SPREAD * _size(block)


def _is_copy(block: Any) -> bool:
    """Whether a block takes values from other places, each found by the axes alone."""
    value = block.body.value
    return isinstance(value, tvm.ir.TensorLoad) and all(
        isinstance(index, tvm.ir.Var | tvm.tirx.IntImm) for index in value.indices
    )


def _loads_of(user: Any, block: Any) -> list[Any]:
    return [load for load in loads_in(user.body) if load.source.same_as(block.body.buffer)]


def _is_cheap(block: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(block.body, [(tvm.ir.Call, found.append), (tvm.tirx.Div, found.append)])
    return not found


def _size(block: Any) -> int:
    return math.prod(map(extent, block.iter_vars))
