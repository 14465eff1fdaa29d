"""Fuse a reduction's prologue and epilogue into its kernel."""

import contextlib
from typing import Any

import tvm

from tvm.s_tir.dlight import analysis  # isort: skip


def inline_producers(schedule: Any, block: Any) -> None:
    """Inline everything that a block reads.

    Raises:
        ScheduleError: a producer cannot be inlined.
    """
    while producers := schedule.get_producers(block):
        for producer in producers:
            schedule.compute_inline(producer)


def inline_consumers(schedule: Any, written: Any) -> None:
    """Fuse the consumers of a block that writes values from registers into it.

    Raises:
        ScheduleError: the consumers are not one element-wise chain.
        ValueError: the block has several consumers.
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
    """A kernel whose element-wise blocks after its reduction are joined to one block."""
    if not isinstance(func, tvm.tirx.PrimFunc):
        return func
    schedule = tvm.s_tir.Schedule(func)
    join_epilogues(schedule)
    return schedule.mod["main"]


def join_epilogues(schedule: Any) -> None:
    """Like :func:`inline_epilogues`, for a schedule and its trace."""
    blocks = schedule.get_child_blocks(analysis.get_root_block(schedule))
    reductions = [
        position for position, block in enumerate(blocks) if analysis.get_sblock_info(schedule, block).is_reduction()
    ]
    for block in blocks[reductions[-1] + 1 : -1] if reductions else []:
        with contextlib.suppress(tvm.s_tir.ScheduleError):
            schedule.compute_inline(block)
