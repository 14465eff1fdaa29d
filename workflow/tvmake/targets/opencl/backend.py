"""GPUs through OpenCL C, with tensors in buffers."""

from tvmake.targets.gpu.backend import GpuBackend
from tvmake.targets.opencl import math, vector_booleans
from tvmake.targets.opencl.scans import SumsAsReductions
from tvmake.targets.opencl.source import hook
from tvmake.targets.passes import Pass


class OpenClBackend(GpuBackend):
    """GPUs through OpenCL C, with tensors in buffers."""

    name = "opencl"

    def dispatch_passes(self) -> list[Pass]:
        """With cumulative sums as reductions."""
        return [SumsAsReductions(), *super().dispatch_passes()]

    def kernel_pipeline(self) -> str:
        """With OpenCL's functions, and booleans computed one by one."""
        hook.install()
        math.install()
        return vector_booleans.register()
