"""GPUs in general: kernels with loops bound to threads."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import tvm

from tvmake.artifact.range_traces import RangeSchedule
from tvmake.artifact.signature import Bounds
from tvmake.errors import InputError
from tvmake.ir.attributes import CPU_ONLY, CPU_ONLY_REMEDY
from tvmake.targets.backend import NO_WIDTHS, SHORTEN_NAMES, Backend, LoweringContext
from tvmake.targets.dynamic.box_selections import SELECT_BOXES
from tvmake.targets.dynamic.name_dimensions import name_dimensions
from tvmake.targets.fuse_operators import fuse_operators
from tvmake.targets.gpu.bound_rule import Launching, general_rules, refuse_unbound
from tvmake.targets.gpu.extrema import Extrema
from tvmake.targets.gpu.few_rows.matrix_vectors import MatrixVectors
from tvmake.targets.gpu.few_rows.vector_matrices import VectorMatrices
from tvmake.targets.gpu.kernel_parts import split_large_kernels
from tvmake.targets.gpu.products import Products
from tvmake.targets.gpu.ranges.dynamic_launches import complete_launches
from tvmake.targets.gpu.ranges.narrow_indices import check_sizes, narrow_indices, why_too_narrow
from tvmake.targets.gpu.ranges.range_schedules import leading_size, ranged_kernels, schedule_recorded_ranges
from tvmake.targets.gpu.rules import Rule, apply_rules, default_schedule, schedule_by_rule
from tvmake.targets.gpu.shape_changes import move_shape_changes
from tvmake.targets.gpu.windows import Windows
from tvmake.targets.passes import ModulePass, Pass

FIX_STEPS = "fix what the number of steps depends on: `inputs: {NAME: {shape: [1, 80]}}` for a length, `inputs: {NAME: {value: 3}}` for a count"


class GpuBackend(Backend):
    """Any GPU. Metal, Vulkan, ROCm and WebGPU have no special passes."""

    name = "gpu"
    binds_threads = True
    has_rules = True
    has_ranges = True
    why_dynamic_untuned = None
    packs_weights = False

    def refuse(self, module: "tvm.IRModule") -> None:
        """Refuse kernels that only CPUs run: selections of boxes, whose result size depends on the data, and loops over time."""
        if _selects_boxes(module):
            problem = (
                "how many boxes NonMaxSuppression keeps depends on the data, and kernels of GPUs need fixed shapes"
            )
            remedy = "choose boxes after the network has run, or take a target of kind llvm"
            raise InputError("targets", problem, remedy)

        for function in module.functions.values():
            if (reason := (function.attrs or {}).get(CPU_ONLY)) is not None:
                remedy = function.attrs.get(CPU_ONLY_REMEDY, FIX_STEPS)
                raise InputError("targets", f"{reason} run on CPUs only", f"take a target of kind llvm, or {remedy}")

    def graph_passes(self, context: LoweringContext) -> list[Pass]:
        """Move reshapes and transpositions to where they can be fused, and dispatch operators."""
        return [ModulePass("MoveShapeChanges", move_shape_changes), *self.dispatch_passes()]

    def legalize_passes(self, context: LoweringContext) -> list[Pass]:
        """Fuse operators into kernels that are small enough for compilers."""
        return [
            *fuse_operators([split_large_kernels]),
            SHORTEN_NAMES,
            ModulePass("NameDimensions", name_dimensions),
        ]

    def schedule_kernels(
        self,
        module: "tvm.IRModule",
        target: "tvm.target.Target",
        refused: Collection[str],
        *,
        by_rules: bool,
        widths: Mapping[str, int] = NO_WIDTHS,
    ) -> tuple["tvm.IRModule", frozenset[str]]:
        """Schedule kernels by rules. TVM's rules schedule all others, so all count as scheduled."""
        module = narrow_indices(module)
        scheduled = apply_rules(module, target, self.schedule_rules(), refused) if by_rules else module
        kernels = (
            str(variable.name_hint)
            for variable, function in scheduled.functions_items()
            if isinstance(function, tvm.tirx.PrimFunc)
        )
        return scheduled, frozenset(kernels)

    def schedule_by_rule(
        self, function: "tvm.tirx.PrimFunc", target: "tvm.target.Target"
    ) -> "tvm.s_tir.Schedule | None":
        """The schedule by tvmake's rules, or else by TVM's."""
        by_rule = schedule_by_rule(function, target, self.schedule_rules())
        return by_rule or default_schedule(function, target, self.default_rules())

    def has_rule(self, function: "tvm.tirx.PrimFunc", target: "tvm.target.Target") -> bool:
        """See :class:`~tvmake.targets.backend.Backend`."""
        return schedule_by_rule(function, target, self.schedule_rules()) is not None

    def leading_size(self, function: "tvm.tirx.PrimFunc", sizes: Mapping[str, int]) -> int:
        """See :class:`~tvmake.targets.backend.Backend`."""
        return leading_size(function, sizes)

    def ranged_kernels(
        self, function: "tvm.tirx.PrimFunc", target: "tvm.target.Target", points: Sequence[Mapping[str, int]]
    ) -> Iterator[tuple[list[RangeSchedule], "tvm.tirx.PrimFunc"]]:
        """Further parameters of the rules for each range."""
        return ranged_kernels(function, target, self.schedule_rules(), points)

    def schedule_recorded_ranges(
        self, function: "tvm.tirx.PrimFunc", target: "tvm.target.Target", ranges: Sequence[RangeSchedule]
    ) -> "tvm.tirx.PrimFunc":
        """See :class:`~tvmake.targets.backend.Backend`."""
        return schedule_recorded_ranges(function, target, self.schedule_rules(), ranges)

    def finish_kernel(self, function: "tvm.tirx.PrimFunc") -> "tvm.tirx.PrimFunc":
        """With dynamic dimensions: no empty launches, and a check of sizes."""
        return check_sizes(complete_launches(tvm.IRModule({"main": function})))["main"]

    def why_not_within(self, function: "tvm.tirx.PrimFunc", bounds: Mapping[str, Bounds]) -> str | None:
        """Indices may be too narrow."""
        return why_too_narrow(function, bounds)

    def default_schedule_passes(self, target: "tvm.target.Target") -> list[Pass]:
        """TVM's rules; the last one accepts every kernel."""
        from tvm.s_tir import dlight

        return [dlight.ApplyDefaultSchedule(*self.default_rules())]

    def schedule_rules(self) -> list[Rule]:
        """tvmake's rules; the first suitable one schedules a kernel."""
        return [MatrixVectors(), VectorMatrices(), Products(), Windows(), Extrema()]

    def default_rules(self) -> list[Rule]:
        """TVM's rules for the other kernels; the last one accepts every kernel."""
        return [Launching(), *general_rules()]

    def final_passes(self) -> list[Pass]:
        """Refuse kernels that would run on the host; with dynamic dimensions, skip empty launches and refuse large tensors."""
        return [
            ModulePass("RefuseUnboundKernels", _refuse_unbound),
            ModulePass("CompleteLaunches", complete_launches),
            ModulePass("CheckSizes", check_sizes),
        ]


def _refuse_unbound(module: "tvm.IRModule") -> "tvm.IRModule":
    refuse_unbound(module)
    return module


def _selects_boxes(module: "tvm.IRModule") -> bool:
    selects = False

    def visit(expression: Any) -> None:
        nonlocal selects
        selects |= isinstance(expression, tvm.relax.Call) and expression.op == tvm.ir.Op.get(SELECT_BOXES)

    tvm.relax.analysis.post_order_visit(module["main"], visit)
    return selects
