"""Adreno GPUs through OpenCL C, with tensors in buffers. Repair: `dlight-blocks-outside-threads`."""

from typing import Any

import tvm

from tvmake.targets.gpu.bound_rule import BoundRule
from tvmake.targets.gpu.epilogue import inline_epilogues
from tvmake.targets.gpu.rules import Rule
from tvmake.targets.opencl.backend import OpenClBackend

from tvm.s_tir.dlight.base import ScheduleRule  # isort: skip


class AdrenoBufferBackend(OpenClBackend):
    """Adreno GPUs through OpenCL C, with tensors in buffers."""

    name = "adreno-buffer"

    def default_rules(self) -> list[Rule]:
        """TVM's rules for Adreno, then those for any GPU."""
        launching, *general = super().default_rules()
        return [launching, *self.adreno_rules(), *general]

    def adreno_rules(self) -> list[Rule]:
        """The usable ones of dlight's rules for Adreno."""
        from tvm.s_tir.dlight import adreno

        layouts = BoundRule(adreno.LayoutTransform())
        return [FuseEpilogue(BoundRule(adreno.Conv2d())), layouts, BoundRule(adreno.Pool2D())]


class FuseEpilogue(ScheduleRule):
    """A rule that receives kernels with everything after a convolution in one block."""

    def __init__(self, rule: Any):
        self.rule = rule

    def apply(self, func: Any, target: "tvm.target.Target", tunable: bool) -> Any:
        """Schedule the kernel with its epilogues inlined."""
        return self.rule.apply(inline_epilogues(func), target, tunable)
