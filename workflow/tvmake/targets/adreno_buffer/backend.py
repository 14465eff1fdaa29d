"""Adreno GPUs through OpenCL C, with tensors in buffers."""

from tvmake.targets.adreno_buffer.fuse_epilogue import FuseEpilogue
from tvmake.targets.gpu.bound_rule import BoundRule
from tvmake.targets.gpu.rules import Rule
from tvmake.targets.opencl.backend import OpenClBackend


class AdrenoBufferBackend(OpenClBackend):
    """Adreno GPUs through OpenCL C, with tensors in buffers."""

    name = "adreno-buffer"

    def default_rules(self) -> list[Rule]:
        """TVM's for Adreno, before those for any GPU."""
        launching, *general = super().default_rules()
        return [launching, *self.adreno_rules(), *general]

    def adreno_rules(self) -> list[Rule]:
        """dlight's rules for Adreno, as far as they can be used."""
        from tvm.s_tir.dlight import adreno

        layouts = BoundRule(adreno.LayoutTransform())
        return [FuseEpilogue(BoundRule(adreno.Conv2d())), layouts, BoundRule(adreno.Pool2D())]
