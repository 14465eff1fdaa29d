"""Bind the loops over tiles to the axes of a launch, without divisions by dynamic dimensions."""

from collections.abc import Sequence
from typing import Any

from tvmake.ir.dimensions import is_known

BLOCK_AXES = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
"""The axes of a launch; the first takes 2³¹ - 1 work groups, the others 65,535."""


def bind_groups(schedule: Any, loops: Sequence[Any]) -> list[Any]:
    """Bind adjacent outer loops to work groups; each dynamic loop gets an axis of its own.

    Returns:
        The bound loops, the innermost last.
    """
    dynamic = [loop for loop in loops if not is_known(schedule.get(loop).extent)]
    fixed = [loop for loop in loops if is_known(schedule.get(loop).extent)]
    if dynamic:
        first, *others = dynamic
        schedule.reorder(*others, first, *fixed)
        groups = [*others, schedule.fuse(first, *fixed)]
    else:
        groups = [schedule.fuse(*loops)]
    for group, axis in zip(reversed(groups), BLOCK_AXES, strict=False):
        schedule.bind(group, axis)
    return groups
