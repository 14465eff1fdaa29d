"""Adreno GPUs through OpenCL C, with tensors in buffers."""

from tvmake.targets.adreno_buffer.fuse_epilogue import FuseEpilogue
from tvmake.targets.gpu.bound_rule import BoundRule
from tvmake.targets.gpu.rules import Rule
from tvmake.targets.opencl.backend import OpenClBackend


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
