"""What a kind of target does to a network, in order: the one place where kinds differ."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import tvm

from tvmake.targets.dynamic.reshapes import ViewReshapes
from tvmake.targets.fuse_operators import fuse_operators
from tvmake.targets.kernel_pipeline import KernelPipeline
from tvmake.targets.kernels.names import shorten_kernel_names
from tvmake.targets.passes import ModulePass, Pass
from tvmake.targets.weights.layouts import take_out_weight_layouts
from tvmake.targets.weights.prepack import Packing

SHORTEN_NAMES = ModulePass("ShortenKernelNames", shorten_kernel_names)


@dataclass(frozen=True)
class LoweringContext:
    """What a network is lowered for."""

    target: "tvm.target.Target"
    inputs: int = 0
    """How many of ``main``'s arguments are the network's inputs; the others are weights."""
    layout_free: bool = False
    """Whether tuning or rules choose the layout of weights."""
    packings: list[Packing] = field(default_factory=list)
    """Of weights, in the order in which they run when a package is built; passes add to them."""

    def pack_weight_layouts(self) -> Pass:
        """A pass that moves changes of weights' layouts from the graph to :attr:`packings`."""

        def rewrite(module: "tvm.IRModule") -> "tvm.IRModule":
            prepacked = take_out_weight_layouts(module, self.inputs)
            self.packings.extend(prepacked.packings)
            return prepacked.module

        return ModulePass("PackWeightLayouts", rewrite)


class Backend:
    """A kind of target; this one is for those of which tvmake knows nothing: TVM's passes, and plain loops.

    The order is: :meth:`refuse`, :meth:`graph_passes`, :meth:`legalize_passes`, :meth:`schedule_kernels`, :meth:`codegen_passes`,
    memory and virtual machine (``tvmake.codegen.lowering``), :meth:`final_passes`, and :meth:`kernel_pipeline` by kernel.
    """

    name: ClassVar[str] = "plain"
    binds_threads: ClassVar[bool] = False
    """Whether kernels need loops that are bound to threads; without rules, TVM's then schedule them."""
    has_rules: ClassVar[bool] = False
    """Whether rules of tvmake schedule kernels, and may pack their weights."""
    packs_weights: ClassVar[bool] = True
    """Whether kernels that are tuned choose their weights' layout: MetaSchedule does not offer it for GPUs."""
    has_textures: ClassVar[bool] = False
    """Whether tensors are stored in images."""
    offloads_to_clml: ClassVar[bool] = False
    """Whether operators are given to Qualcomm's CLML."""
    emits_cuda: ClassVar[bool] = False
    """Whether kernels are packed as CUDA source, unless it is compiled when they are built."""
    captures_graphs: ClassVar[bool] = False
    """Whether kernels can be recorded as a CUDA graph."""
    search_rules: ClassVar[str | None] = None
    """MetaSchedule's name for the rules that candidates are drawn by; None leaves the choice to it."""

    def refuse(self, module: "tvm.IRModule") -> None:
        """Refuse a network that cannot be built for such targets.

        Raises:
            InputError: naming what stands against it.
        """

    def dispatch_passes(self) -> list[Pass]:
        """Operators that functions of the runtime compute."""
        backend = tvm.relax.backend
        return [backend.DispatchSampling(), backend.DispatchSortScan()]

    def graph_passes(self, context: LoweringContext) -> list[Pass]:
        """What is done to operators, before they become kernels."""
        return self.dispatch_passes()

    def legalize_passes(self, context: LoweringContext) -> list[Pass]:
        """From operators to fused kernels."""
        return [*fuse_operators(), SHORTEN_NAMES]

    def schedule_kernels(
        self, module: "tvm.IRModule", target: "tvm.target.Target", refused: Collection[str], *, by_rules: bool
    ) -> tuple["tvm.IRModule", frozenset[str]]:
        """Schedule the kernels that no record has scheduled.

        Args:
            module: Relax calling fused kernels.
            target: of this kind.
            refused: names of kernels to leave unchanged.
            by_rules: whether tvmake's rules are used.

        Returns:
            The module, and the names of the kernels that count as scheduled.
        """
        return module, frozenset()

    def schedule_by_rule(
        self, function: "tvm.tirx.PrimFunc", target: "tvm.target.Target"
    ) -> "tvm.s_tir.Schedule | None":
        """The schedule that a kernel has without tuning, with its trace; None for plain loops."""
        return None

    def further_schedules(
        self, function: "tvm.tirx.PrimFunc", target: "tvm.target.Target"
    ) -> Iterator["tvm.s_tir.Schedule"]:
        """Other schedules by the same rule that are worth measuring, the better ones first."""
        yield from ()

    def default_schedule_passes(self, target: "tvm.target.Target") -> list[Pass]:
        """What schedules the kernels that are left, so that they run at all."""
        return []

    def codegen_passes(self, context: LoweringContext, scheduled: "tvm.IRModule") -> list[Pass]:
        """What is done to scheduled kernels, before memory is planned."""
        return [*self.default_schedule_passes(context.target), *view_reshapes()]

    def final_passes(self) -> list[Pass]:
        """What is done last, to the module for the code generator."""
        return []

    def kernel_pipeline(self) -> KernelPipeline:
        """What single kernels go through."""
        return KernelPipeline()

    def install_functions(self) -> None:
        """Register functions that TVM's code generator calls."""

    def intrinsics_module(self, target: "tvm.target.Target") -> str | None:
        """The submodule of ``tvm.s_tir.tensor_intrin`` with the intrinsics that schedules may name."""
        kind = str(target.kind.name)
        return kind if kind in ("hexagon", "rocm") else None

    def register_intrinsics(self, target: "tvm.target.Target") -> None:
        """Register tvmake's own intrinsics."""

    def search_target(self, target: "tvm.target.Target", cores: int) -> "tvm.target.Target":
        """The target with what MetaSchedule's rules need; the code of a schedule does not depend on it.

        Args:
            target: of this kind.
            cores: of the device.
        """
        return target

    def device_kind(self, target: "tvm.target.Target") -> str:
        """The runtime's name for the device that kernels run on."""
        kind = str(target.kind.name)
        return "cpu" if kind == "c" else kind


def view_reshapes() -> list[Pass]:
    """Reshapes without a copy."""
    return [ViewReshapes(), tvm.relax.transform.RewriteDataflowReshape()]
