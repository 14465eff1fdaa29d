"""GPUs in general: kernels whose loops are bound to threads."""

from collections.abc import Collection
from typing import Any

import tvm

from tvmake.errors import InputError
from tvmake.targets.backend import SHORTEN_NAMES, Backend, LoweringContext
from tvmake.targets.fuse_operators import fuse_operators
from tvmake.targets.gpu.bound_rule import Launching, general_rules, refuse_unbound
from tvmake.targets.gpu.extrema import Extrema
from tvmake.targets.gpu.kernel_parts import PartLargeKernels
from tvmake.targets.gpu.products import Products
from tvmake.targets.gpu.rules import Rule, apply_rules, default_schedule, schedule_by_rule
from tvmake.targets.gpu.shape_changes import move_shape_changes
from tvmake.targets.gpu.windows import Windows
from tvmake.targets.passes import ModulePass, Pass

SELECT_BOXES = "relax.vision.all_class_non_max_suppression"


class GpuBackend(Backend):
    """Any GPU; Metal, Vulkan, ROCm and WebGPU have nothing of their own."""

    name = "gpu"
    binds_threads = True
    has_rules = True
    packs_weights = False

    def refuse(self, module: "tvm.IRModule") -> None:
        """How many boxes are kept is known when a kernel has run, and kernels are launched for fixed sizes."""
        if _selects_boxes(module):
            raise InputError(
                "targets",
                "how many boxes NonMaxSuppression keeps depends on the data, and kernels of GPUs need fixed shapes",
                "choose boxes after the network has run, or take a target of kind llvm",
            )

    def graph_passes(self, context: LoweringContext) -> list[Pass]:
        """Reshapes and transpositions where they can be fused."""
        return [ModulePass("MoveShapeChanges", move_shape_changes), *self.dispatch_passes()]

    def legalize_passes(self, context: LoweringContext) -> list[Pass]:
        """Kernels of as many operators as compilers take."""
        return [*fuse_operators([PartLargeKernels()]), SHORTEN_NAMES]

    def schedule_kernels(
        self, module: "tvm.IRModule", target: "tvm.target.Target", refused: Collection[str], *, by_rules: bool
    ) -> tuple["tvm.IRModule", frozenset[str]]:
        """By rules; TVM's own ones schedule the others, so that all count."""
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
        """By tvmake's rules, or else by TVM's."""
        by_rule = schedule_by_rule(function, target, self.schedule_rules())
        return by_rule or default_schedule(function, target, self.default_rules())

    def default_schedule_passes(self, target: "tvm.target.Target") -> list[Pass]:
        """TVM's rules, the last of which takes every kernel."""
        from tvm.s_tir import dlight

        return [dlight.ApplyDefaultSchedule(*self.default_rules())]

    def schedule_rules(self) -> list[Rule]:
        """Rules of tvmake; the first that suits a kernel schedules it."""
        return [Products(), Windows(), Extrema()]

    def default_rules(self) -> list[Rule]:
        """Rules of TVM for the other kernels, of which the last one takes every kernel."""
        return [Launching(), *general_rules()]

    def final_passes(self) -> list[Pass]:
        """See :func:`~tvmake.targets.gpu.bound_rule.refuse_unbound`."""
        return [ModulePass("RefuseUnboundKernels", _refuse_unbound)]


def _refuse_unbound(module: "tvm.IRModule") -> "tvm.IRModule":
    refuse_unbound(module)
    return module


def _selects_boxes(module: "tvm.IRModule") -> bool:
    found = False

    def visit(expression: Any) -> None:
        nonlocal found
        found |= isinstance(expression, tvm.relax.Call) and expression.op == tvm.ir.Op.get(SELECT_BOXES)

    tvm.relax.analysis.post_order_visit(module["main"], visit)
    return found
