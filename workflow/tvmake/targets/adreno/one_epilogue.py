"""Kernels of a convolution and what is computed from its result, for schedule rules that know one block after it.

TVM 0.27's rule for convolutions on Adreno moves only the last block of a kernel into its threads.
"""

import contextlib
from typing import Any

import tvm

from tvm.s_tir.dlight import analysis  # isort: skip
from tvm.s_tir.dlight.base import ScheduleRule  # isort: skip


def inline_epilogues(func: Any) -> Any:
    """A kernel whose element-wise blocks after its reduction are one block, wherever their values are used."""
    if not isinstance(func, tvm.tirx.PrimFunc):
        return func
    schedule = tvm.s_tir.Schedule(func)
    blocks = schedule.get_child_blocks(analysis.get_root_block(schedule))
    reductions = [
        place for place, block in enumerate(blocks) if analysis.get_sblock_info(schedule, block).is_reduction()
    ]
    if not reductions:
        return func
    for block in blocks[reductions[-1] + 1 : -1]:
        with contextlib.suppress(tvm.s_tir.ScheduleError):
            schedule.compute_inline(block)
    return schedule.mod["main"]


class OfOneEpilogue(ScheduleRule):
    """A rule that sees kernels with their epilogue in one block."""

    def __init__(self, rule: Any):
        self.rule = rule

    def apply(self, func: Any, target: "tvm.target.Target", tunable: bool) -> Any:
        """The rule's schedule for such a kernel."""
        return self.rule.apply(inline_epilogues(func), target, tunable)
