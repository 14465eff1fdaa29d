"""Select the kernels for GPU rules."""

from typing import Any

import tvm

from tvmake.targets.cpu.schedules.accesses import is_fixed, is_injective
from tvmake.targets.gpu.epilogue import join_epilogues

from tvm.s_tir.dlight import analysis  # isort: skip


def single_reduction(func: Any) -> tuple["tvm.s_tir.Schedule", Any] | None:
    """A kernel's schedule and the block of its only reduction; None for other kernels, and for unsuitable blocks."""
    if not isinstance(func, tvm.tirx.PrimFunc):
        return None
    schedule = tvm.s_tir.Schedule(func)
    join_epilogues(schedule)
    blocks = schedule.get_child_blocks(analysis.get_root_block(schedule))
    sums = [block for block in blocks if not is_injective(schedule.get(block))]
    if len(sums) != 1 or not all(_is_suitable(schedule.get(block)) for block in blocks):
        return None
    return schedule, sums[0]


def _is_suitable(block: Any) -> bool:
    """Whether a block has static extents, and no textures."""
    return is_fixed(block) and all(str(region.source.scope()) == "global" for region in (*block.reads, *block.writes))
