"""Select the kernels for GPU rules."""

from functools import lru_cache
from typing import Any

import tvm

from tvmake.ir.dimensions import dynamic_dimensions
from tvmake.targets.cpu.schedules.accesses import is_injective
from tvmake.targets.cpu.schedules.flatten_rows import flatten_rows
from tvmake.targets.gpu.epilogue import join_epilogues

from tvm.s_tir.dlight import analysis  # isort: skip

CHECKED = "tvmake.is_checked"
"""Attribute of a kernel with dynamic dimensions if TVM has checked its schedule for static ones. TVM cannot prove that
``batch * 784`` columns are within ``(batch * 49 + 3) // 4`` tiles of 64, and would refuse the same steps."""


def single_reduction(func: Any, *, flattens: bool = True) -> tuple["tvm.s_tir.Schedule", Any] | None:
    """A kernel's schedule and the block of its only reduction; None for other kernels, and for unsuitable blocks.

    Args:
        flattens: fuse the axes of rows with dynamic dimensions.
    """
    if not isinstance(func, tvm.tirx.PrimFunc):
        return None
    flat = flatten_rows(func) if flattens and dynamic_dimensions(func) else func
    schedule = tvm.s_tir.Schedule(flat, enable_check=CHECKED not in (func.attrs or {}))
    join_epilogues(schedule)
    blocks = schedule.get_child_blocks(analysis.get_root_block(schedule))
    sums = [block for block in blocks if not is_injective(schedule.get(block))]
    if len(sums) != 1 or not all(_is_suitable(schedule.get(block)) for block in blocks):
        return None
    return schedule, sums[0]


@lru_cache(maxsize=2)
def read_reduction(func: Any) -> tuple["tvm.s_tir.Schedule", Any] | None:
    """Like :func:`single_reduction`, for several rules; the schedule must not be changed."""
    return single_reduction(func)


def _is_suitable(block: Any) -> bool:
    """Whether a block accesses no textures."""
    return all(str(region.source.scope()) == "global" for region in (*block.reads, *block.writes))
