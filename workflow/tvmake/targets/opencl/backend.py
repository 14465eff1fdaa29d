"""GPUs through OpenCL C, with tensors in buffers."""

from tvmake.targets.c_dialects.before_lowering import lower_dialect
from tvmake.targets.c_dialects.unroll_vectors import unroll_booleans
from tvmake.targets.gpu.backend import GpuBackend
from tvmake.targets.kernel_pipeline import KernelPipeline
from tvmake.targets.opencl import math, source
from tvmake.targets.opencl.scans import compute_sums_as_reductions
from tvmake.targets.passes import Pass


class OpenClBackend(GpuBackend):
    """GPUs through OpenCL C, with tensors in buffers."""

    name = "opencl"

    def dispatch_passes(self) -> list[Pass]:
        """Compute cumulative sums by reductions, and dispatch operators."""
        return [compute_sums_as_reductions, *super().dispatch_passes()]

    def kernel_pipeline(self) -> KernelPipeline:
        """Compute booleans one by one."""
        return lower_dialect("tvmake_opencl", unroll_booleans)

    def install_functions(self) -> None:
        """Install OpenCL's function names, and the corrections of kernel sources."""
        source.install()
        math.install()
