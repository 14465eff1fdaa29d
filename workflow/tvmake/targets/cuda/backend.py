"""NVIDIA GPUs, through CUDA C++."""

from collections.abc import Iterator

import tvm

from tvmake.targets.backend import LoweringContext
from tvmake.targets.c_dialects.before_lowering import lower_dialect
from tvmake.targets.cuda import dot_products, math
from tvmake.targets.cuda.fragments import register_fragments
from tvmake.targets.cuda.half_remainders import WideRemainders
from tvmake.targets.cuda.propagate_tf32 import propagate_tf32
from tvmake.targets.cuda.tensor_cores import TensorCores, good_tiles
from tvmake.targets.cuda.vector_booleans import RELEASES, StoredBooleans
from tvmake.targets.gpu.backend import GpuBackend
from tvmake.targets.gpu.bound_rule import BoundRule
from tvmake.targets.gpu.extrema import Extrema
from tvmake.targets.gpu.products import Products
from tvmake.targets.gpu.rules import Rule
from tvmake.targets.gpu.windows import Windows
from tvmake.targets.kernel_pipeline import KernelPipeline
from tvmake.targets.kernels.simplify_divmod import SimplifyDivmod
from tvmake.targets.passes import ModulePass, Pass

FURTHER = 7
"""Schedules of a kernel, besides the one of its rule, that a search starts from."""


class CudaBackend(GpuBackend):
    """NVIDIA GPUs, through CUDA C++."""

    name = "cuda"
    emits_cuda = True
    captures_graphs = True
    # From sm_70 on, MetaSchedule's own choice are the rules for tensor cores, which compute in float16 alone.
    search_rules = "cuda"

    def dispatch_passes(self) -> list[Pass]:
        """With remainders of float16 in float32."""
        return [WideRemainders(), *super().dispatch_passes()]

    def legalize_passes(self, context: LoweringContext) -> list[Pass]:
        """Kernels that know of the network's TF32."""
        return [*super().legalize_passes(context), ModulePass("PropagateTf32", propagate_tf32)]

    def schedule_rules(self) -> list[Rule]:
        """Tensor cores, and dot products of integers, before what suits any GPU."""
        return [TensorCores(), Products(dot_products.dot_intrinsic), Windows(), Extrema()]

    def further_schedules(
        self, function: "tvm.tirx.PrimFunc", target: "tvm.target.Target"
    ) -> Iterator["tvm.s_tir.Schedule"]:
        """Other tiles of tensor cores."""
        with target:
            for tile in good_tiles(function, target)[1 : 1 + FURTHER]:
                schedule = BoundRule(TensorCores(tile)).apply(function, target, False)
                if schedule is not None:
                    yield schedule

    def kernel_pipeline(self) -> KernelPipeline:
        """With booleans stored one by one, and with shorter indices."""
        return lower_dialect("tvmake_cuda", StoredBooleans(), RELEASES, [SimplifyDivmod()])

    def install_functions(self) -> None:
        """CUDA's names of functions, and dot products."""
        math.install()
        dot_products.install()

    def register_intrinsics(self, target: "tvm.target.Target") -> None:
        """Tensor cores and dot products of integers."""
        register_fragments()
        dot_products.register_dot_products()

    def search_target(self, target: "tvm.target.Target", cores: int) -> "tvm.target.Target":
        """Without a least number of threads in a block.

        MetaSchedule's rules throw away what has fewer than a warp, after they have drawn it and replayed it: 1 to 5 of 100 candidates of
        a convolution are left, and drawing a population takes half a minute. Without that bound it is 30 to 45 of 100, and the cost model
        learns which blocks are too small.
        """
        return tvm.target.Target({**dict(target.export()), "thread_warp_size": 1})
