"""Let adjacent threads share a reduction along memory."""

from typing import Any

from tvmake.targets.gpu.epilogue import inline_consumers
from tvmake.targets.gpu.machine import Gpu

WARP = 32
"""Threads per row, if there are enough rows."""

ENOUGH_ROWS = 512
"""Rows that fill a GPU with one warp each; with fewer rows, more threads share one."""


def threads_of_row(unit: Gpu, rows: int, length: int) -> tuple[int, int]:
    """Threads per row, and rows of a work group.

    Args:
        rows: number of reductions.
        length: values of each.
    """
    most = unit.threads
    threads = min(WARP if rows >= ENOUGH_ROWS else most, most, 1 << (length - 1).bit_length())
    return threads, max(1, min(rows, most // threads // 2))


def share_rows(schedule: Any, block: Any, reduced: int, shape: tuple[int, int]) -> None:
    """Bind a reduction to threads, with the element-wise blocks after it.

    Args:
        reduced: number of its reduced axes, which are the last ones.
        shape: threads per row, and rows of a work group.

    Raises:
        ScheduleError: the blocks after it are not one element-wise chain.
        ValueError: the reduction has several uses.
    """
    threads, height = shape
    loops = schedule.get_loops(block)
    if len(loops) == reduced:
        loops = [schedule.add_unit_loop(loops[0]), *loops]
    outer, along = loops[:-reduced], loops[-reduced:]
    groups, row = schedule.split(schedule.fuse(*outer), [None, height])
    _, lanes = schedule.split(schedule.fuse(*along), [None, threads])
    schedule.bind(groups, "blockIdx.x")
    schedule.bind(row, "threadIdx.y")
    written = schedule.cache_write(block, 0, "local")
    schedule.reverse_compute_at(written, row, preserve_unit_loops=True)
    schedule.bind(lanes, "threadIdx.x")
    inline_consumers(schedule, written)
