"""GPUs through OpenCL C, with tensors in buffers."""

from tvmake.targets.c_dialects.before_lowering import lower_dialect
from tvmake.targets.gpu.backend import GpuBackend
from tvmake.targets.kernel_pipeline import KernelPipeline
from tvmake.targets.opencl import math
from tvmake.targets.opencl.scans import SumsAsReductions
from tvmake.targets.opencl.source import hook
from tvmake.targets.opencl.vector_booleans import RELEASES, ScalarBooleans
from tvmake.targets.passes import Pass


class OpenClBackend(GpuBackend):
    """GPUs through OpenCL C, with tensors in buffers."""

    name = "opencl"

    def dispatch_passes(self) -> list[Pass]:
        """With cumulative sums as reductions."""
        return [SumsAsReductions(), *super().dispatch_passes()]

    def kernel_pipeline(self) -> KernelPipeline:
        """With booleans computed one by one."""
        return lower_dialect("tvmake_opencl", ScalarBooleans(), RELEASES)

    def install_functions(self) -> None:
        """OpenCL's names of functions, and what mends the source of kernels."""
        hook.install()
        math.install()
