"""Fuse everything after a convolution into one block, for schedule rules that expect one epilogue block.

Repair: `dlight-blocks-outside-threads`.
"""

from typing import Any

import tvm

from tvmake.targets.gpu.epilogue import inline_epilogues

from tvm.s_tir.dlight.base import ScheduleRule  # isort: skip


class FuseEpilogue(ScheduleRule):
    """A rule that receives kernels with their epilogue in one block."""

    def __init__(self, rule: Any):
        self.rule = rule

    def apply(self, func: Any, target: "tvm.target.Target", tunable: bool) -> Any:
        """Schedule the kernel with its epilogues inlined."""
        return self.rule.apply(inline_epilogues(func), target, tunable)
