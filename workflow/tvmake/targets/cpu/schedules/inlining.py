"""Blocks that are computed where they are used, instead of a pass over memory of their own."""

from typing import Any

import tvm
import tvm_ffi

from tvmake.targets.cpu.schedules.accesses import is_injective, loads_in

LARGEST = 300
"""Nodes of an expression that others are put into: what is used several times doubles with each step."""

MOST_CHOICES = 3
"""Choices (``Select``) within one another: TVM 0.27 simplifies each one several times for the one around it."""

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
    if _nodes(block.body) * len(_loads_of(user, block)) + _nodes(user.body) > LARGEST:
        return False
    if (choices := nested_choices(block.body)) and choices + nested_choices(user.body) > MOST_CHOICES:
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


def _nodes(statement: Any) -> int:
    found: list[Any] = []
    tvm_ffi.structural_walk(statement, (tvm.ir.Expr, lambda _node: found.append(1)))
    return len(found)


def nested_choices(statement: Any) -> int:
    """How deep a statement's choices are within one another."""
    depths: dict[Any, int] = {}

    def note(choice: Any) -> None:
        inner = [0]
        for part in (choice.condition, choice.true_value, choice.false_value):
            tvm_ffi.structural_walk(part, (tvm.tirx.Select, lambda one: inner.append(depths[one])))
        depths[choice] = 1 + max(inner)

    tvm_ffi.structural_walk(statement, (tvm.tirx.Select, note), order="post")
    return max(depths.values(), default=0)


def _size(block: Any) -> float:
    size = 1.0
    for axis in block.iter_vars:
        if not isinstance(axis.dom.extent, tvm.tirx.IntImm):
            return float("inf")
        size *= int(axis.dom.extent)
    return size
