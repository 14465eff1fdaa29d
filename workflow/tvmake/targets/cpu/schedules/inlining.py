"""Compute blocks where they are used, instead of in a separate pass over memory."""

import math
from typing import Any

import tvm
import tvm_ffi

from tvmake.targets.cpu.schedules.accesses import extent, is_injective, loads_in
from tvmake.targets.kernels.expression_size import LARGEST, MOST_CHOICES, nested_choices, nodes

CHEAP_SPREAD = 4
"""How many times more often a block with calls or divisions may be computed once it is inlined."""


def inline(schedule: Any, root: Any) -> None:
    """Inline element-wise blocks into their consumers, unless that repeats much computation."""
    while any(_try_inline(schedule, block) for block in schedule.get_child_blocks(root)):
        pass


def _try_inline(schedule: Any, block: Any) -> bool:
    producer = schedule.get(block)
    users = schedule.get_consumers(block)
    if not users or not is_injective(producer) or not isinstance(producer.body, tvm.tirx.BufferStore):
        return False
    if not all(_can_inline(schedule.get(user), producer) for user in users):
        return False
    try:
        schedule.compute_inline(block)
    except tvm.s_tir.ScheduleError:
        return False
    return True


def _can_inline(user: Any, block: Any) -> bool:
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
    """Whether a block copies values, with indices that are plain axes."""
    value = block.body.value
    return isinstance(value, tvm.ir.TensorLoad) and all(
        isinstance(index, tvm.ir.Var | tvm.tirx.IntImm) for index in value.indices
    )


def _loads_of(user: Any, block: Any) -> list[Any]:
    return [load for load in loads_in(user.body) if load.source.same_as(block.body.buffer)]


def _is_cheap(block: Any) -> bool:
    costly: list[Any] = []
    tvm_ffi.structural_walk(block.body, [(tvm.ir.Call, costly.append), (tvm.tirx.Div, costly.append)])
    return not costly


def _size(block: Any) -> int:
    return math.prod(map(extent, block.iter_vars))
