"""NVIDIA GPUs through CUDA C++."""

from collections.abc import Iterator

import tvm

from tvmake.targets.backend import LoweringContext
from tvmake.targets.c_dialects.before_lowering import lower_dialect
from tvmake.targets.c_dialects.unroll_vectors import unroll_stored_booleans
from tvmake.targets.cuda import dot_products, math
from tvmake.targets.cuda.fragments import register_fragments
from tvmake.targets.cuda.math import widen_remainders
from tvmake.targets.cuda.propagate_tf32 import propagate_tf32
from tvmake.targets.cuda.tensor_cores import TensorCores, good_tiles
from tvmake.targets.gpu.backend import GpuBackend
from tvmake.targets.gpu.bound_rule import BoundRule
from tvmake.targets.gpu.extrema import Extrema
from tvmake.targets.gpu.few_rows.matrix_vectors import MatrixVectors
from tvmake.targets.gpu.few_rows.vector_matrices import VectorMatrices
from tvmake.targets.gpu.products import Products
from tvmake.targets.gpu.rules import Rule
from tvmake.targets.gpu.windows import Windows
from tvmake.targets.kernel_pipeline import KernelPipeline
from tvmake.targets.kernels.simplify_divmod import simplify_divmod
from tvmake.targets.passes import ModulePass, Pass

FURTHER = 7
"""Additional schedules of a kernel from which a search starts."""


class CudaBackend(GpuBackend):
    """NVIDIA GPUs through CUDA C++."""

    name = "cuda"
    emits_cuda = True
    captures_graphs = True
    # From sm_70 on, MetaSchedule's default rules are those for tensor cores, which compute in float16 only.
    search_rules = "cuda"

    def dispatch_passes(self) -> list[Pass]:
        """Compute float16 remainders in float32, and dispatch operators."""
        return [widen_remainders, *super().dispatch_passes()]

    def legalize_passes(self, context: LoweringContext) -> list[Pass]:
        """Legalise operators, and mark kernels that may use TF32."""
        return [*super().legalize_passes(context), ModulePass("PropagateTf32", propagate_tf32)]

    def schedule_rules(self) -> list[Rule]:
        """Tensor cores and integer dot products, then the rules for any GPU."""
        return [
            TensorCores(),
            MatrixVectors(),
            VectorMatrices(),
            Products(dot_products.dot_intrinsic),
            Windows(),
            Extrema(),
        ]

    def further_schedules(
        self, function: "tvm.tirx.PrimFunc", target: "tvm.target.Target"
    ) -> Iterator["tvm.s_tir.Schedule"]:
        """Other tensor core tiles."""
        with target:
            for tile in good_tiles(function, target)[1 : 1 + FURTHER]:
                schedule = BoundRule(TensorCores(tile)).apply(function, target, False)
                if schedule is not None:
                    yield schedule

    def kernel_pipeline(self) -> KernelPipeline:
        """Store booleans one by one, and simplify indices."""
        return lower_dialect("tvmake_cuda", unroll_stored_booleans, [simplify_divmod])

    def install_functions(self) -> None:
        """Install CUDA's function names, and dot products."""
        math.install()
        dot_products.install()

    def register_intrinsics(self, target: "tvm.target.Target") -> None:
        """Register tensor cores and integer dot products."""
        register_fragments()
        dot_products.register_dot_products()

    def search_target(self, target: "tvm.target.Target", cores: int) -> "tvm.target.Target":
        """Remove the minimum number of threads in a block.

        MetaSchedule's rules discard candidates with fewer threads than a warp after generating and replaying them: 1 to
        5 of 100 candidates of a convolution remain, and generating a population takes half a minute. Without the bound
        30 to 45 of 100 remain, and the cost model learns which blocks are too small.
        """
        return tvm.target.Target({**dict(target.export()), "thread_warp_size": 1})
