"""What stands before and after a sum, computed with it."""

import contextlib
from typing import Any

import tvm

from tvm.s_tir.dlight import analysis  # isort: skip


def inline_producers(schedule: Any, block: Any) -> None:
    """Compute what a block reads where it is read.

    Raises:
        ScheduleError: it cannot be.
    """
    while producers := schedule.get_producers(block):
        for producer in producers:
            schedule.compute_inline(producer)


def inline_consumers(schedule: Any, written: Any) -> None:
    """Compute what follows a block, which writes values from registers, on these values.

    Raises:
        ScheduleError: what follows is not one element-wise chain.
        ValueError: the block is used in several ways.
    """
    while consumers := schedule.get_consumers(written):
        if len(consumers) != 1:
            raise ValueError("a result with several uses")
        (consumer,) = consumers
        for producer in schedule.get_producers(consumer):
            if not schedule.get(producer).same_as(schedule.get(written)):
                inline_producers(schedule, producer)
                schedule.compute_inline(producer)
        schedule.reverse_compute_inline(consumer)


def inline_epilogues(func: Any) -> Any:
    """A kernel whose element-wise blocks after its reduction are one block, wherever their values are used."""
    if not isinstance(func, tvm.tirx.PrimFunc):
        return func
    schedule = tvm.s_tir.Schedule(func)
    join_epilogues(schedule)
    return schedule.mod["main"]


def join_epilogues(schedule: Any) -> None:
    """The same with a kernel's schedule, whose trace says so."""
    blocks = schedule.get_child_blocks(analysis.get_root_block(schedule))
    reductions = [
        place for place, block in enumerate(blocks) if analysis.get_sblock_info(schedule, block).is_reduction()
    ]
    for block in blocks[reductions[-1] + 1 : -1] if reductions else []:
        with contextlib.suppress(tvm.s_tir.ScheduleError):
            schedule.compute_inline(block)
