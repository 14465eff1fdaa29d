"""The interface of target kinds: what a kind does to a network, in order. Kinds differ nowhere else."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

import tvm

from tvmake.artifact.range_traces import RangeSchedule
from tvmake.artifact.signature import Bounds
from tvmake.artifact.tasks import DYNAMIC
from tvmake.ir.views import View
from tvmake.targets.dynamic.reshapes import replace_reshapes_by_views
from tvmake.targets.fuse_operators import fuse_operators
from tvmake.targets.kernel_pipeline import KernelPipeline
from tvmake.targets.kernels.names import shorten_kernel_names
from tvmake.targets.memory import Memory, addressable_memory
from tvmake.targets.options import TargetOptions
from tvmake.targets.passes import ModulePass, Pass
from tvmake.targets.weights.layouts import extract_weight_layouts
from tvmake.targets.weights.prepack import Packing

NO_WIDTHS: Mapping[str, int] = MappingProxyType({})

SHORTEN_NAMES = ModulePass("ShortenKernelNames", shorten_kernel_names)


@dataclass(frozen=True)
class LoweringContext:
    """The target of a lowering, and what its passes record."""

    target: "tvm.target.Target"
    inputs: int = 0
    """Number of network inputs among ``main``'s arguments; the others are weights."""
    layout_free: bool = False
    """Whether tuning or rules choose the layout of weights."""
    function: str = ""
    """The name of the package's function; empty if it has only one."""
    packings: list[Packing] = field(default_factory=list)
    """Weight packings in the order in which they run when a package is built; passes append to them."""

    def pack_weight_layouts(self) -> Pass:
        """A pass that moves layout changes of weights from the graph to :attr:`packings`."""

        def rewrite(module: "tvm.IRModule") -> "tvm.IRModule":
            prepacked = extract_weight_layouts(module, self.inputs)
            self.packings.extend(prepacked.packings)
            return prepacked.module

        return ModulePass("PackWeightLayouts", rewrite)


class Backend:
    """A kind of target. This base class serves kinds that tvmake does not know: TVM's passes, and plain loops.

    The order is: :meth:`refuse`, :meth:`graph_passes`, :meth:`legalize_passes`, :meth:`schedule_kernels`,
    :meth:`codegen_passes`, memory and virtual machine (``tvmake.codegen.lowering``), :meth:`final_passes`, and
    :meth:`kernel_pipeline` for each kernel.
    """

    name: ClassVar[str] = "plain"
    binds_threads: ClassVar[bool] = False
    """Whether kernels need loops bound to threads; without rules, TVM's default schedules bind them."""
    has_rules: ClassVar[bool] = False
    """Whether tvmake's rules schedule kernels, and may pack their weights."""
    packs_weights: ClassVar[bool] = True
    """Whether tuned kernels choose the layout of their weights; MetaSchedule does not support that for GPUs."""
    has_textures: ClassVar[bool] = False
    """Whether tensors are stored in images."""
    offloads_to_clml: ClassVar[bool] = False
    """Whether Qualcomm's CLML computes some operators."""
    emits_cuda: ClassVar[bool] = False
    """Whether packages hold kernels as CUDA source, unless it is compiled at build time."""
    needs_fixed_sizes: ClassVar[bool] = False
    """Whether networks with dynamic dimensions are refused."""
    captures_graphs: ClassVar[bool] = False
    """Whether kernels can be captured in a CUDA graph."""
    why_dynamic_untuned: ClassVar[str | None] = DYNAMIC
    """Why kernels with dynamic dimensions are not tuned; None if there are candidates for them: :meth:`ranged_kernels`, or
    :meth:`further_schedules`."""
    has_ranges: ClassVar[bool] = False
    """Whether kernels with dynamic dimensions have code for ranges of sizes, so that their candidates are
    :meth:`ranged_kernels`."""
    search_rules: ClassVar[str | None] = None
    """MetaSchedule's name of the rules that generate candidates; None lets MetaSchedule choose."""

    def refuse(self, module: "tvm.IRModule") -> None:
        """Refuse a network that cannot be built for such targets.

        Raises:
            InputError: naming the obstacle.
        """

    def memory(self, options: TargetOptions) -> Memory:
        """What each tensor of a network must fit."""
        return addressable_memory(options)

    def dispatch_passes(self) -> list[Pass]:
        """Replace operators that the runtime's functions compute."""
        backend = tvm.relax.backend
        return [backend.DispatchSampling(), backend.DispatchSortScan()]

    def graph_passes(self, context: LoweringContext) -> list[Pass]:
        """Transform operators before they become kernels."""
        return self.dispatch_passes()

    def legalize_passes(self, context: LoweringContext) -> list[Pass]:
        """Lower operators to fused kernels."""
        return [*fuse_operators(), SHORTEN_NAMES]

    def schedule_kernels(
        self,
        module: "tvm.IRModule",
        target: "tvm.target.Target",
        refused: Collection[str],
        *,
        by_rules: bool,
        widths: Mapping[str, int] = NO_WIDTHS,
    ) -> tuple["tvm.IRModule", frozenset[str]]:
        """Schedule the kernels without a record.

        Args:
            module: Relax calling fused kernels.
            by_rules: whether to use tvmake's rules.
            widths: the numbers of adjacent results of tiles, by kernel, if weights have the layout of other kernels already.

        Returns:
            The module, and the names of the kernels that count as scheduled.
        """
        return module, frozenset()

    def form_for_schedules(self, function: "tvm.tirx.PrimFunc") -> "tvm.tirx.PrimFunc":
        """The form of a kernel that the traces of its schedules apply to; it has the same arguments."""
        return function

    def schedule_by_rule(
        self, function: "tvm.tirx.PrimFunc", target: "tvm.target.Target"
    ) -> "tvm.s_tir.Schedule | None":
        """The schedule of an untuned kernel, with its trace; None for plain loops."""
        return None

    def leading_size(self, function: "tvm.tirx.PrimFunc", sizes: Mapping[str, int]) -> int:
        """The size that selects the code of a kernel with ranges.

        Args:
            sizes: of its dynamic dimensions, by name.
        """
        return 1

    def has_rule(self, function: "tvm.tirx.PrimFunc", target: "tvm.target.Target") -> bool:
        """Whether one of tvmake's rules schedules a kernel; for backends that bind threads."""
        return False

    def further_schedules(
        self, function: "tvm.tirx.PrimFunc", target: "tvm.target.Target"
    ) -> Iterator["tvm.s_tir.Schedule"]:
        """Other schedules of the same rule that are worth measuring, the best first."""
        yield from ()

    def ranged_kernels(
        self, function: "tvm.tirx.PrimFunc", target: "tvm.target.Target", points: Sequence[Mapping[str, int]]
    ) -> Iterator[tuple[list[RangeSchedule], "tvm.tirx.PrimFunc"]]:
        """Schedules of a kernel with dynamic dimensions that are worth measuring, with the scheduled kernel; that of an untuned
        one first.

        Args:
            points: the sizes of its dynamic dimensions at which it is measured, by name.
        """
        yield from ()

    def schedule_recorded_ranges(
        self, function: "tvm.tirx.PrimFunc", target: "tvm.target.Target", ranges: Sequence[RangeSchedule]
    ) -> "tvm.tirx.PrimFunc":
        """A kernel with the schedules of a record of one of :meth:`ranged_kernels`.

        Raises:
            ValueError: they do not suit the kernel.
        """
        raise ValueError("the record is for ranges of sizes, which kernels of this target do not have")

    def why_not_within(self, function: "tvm.tirx.PrimFunc", bounds: Mapping[str, Bounds]) -> str | None:
        """Why a kernel that was scheduled by a record cannot be used with these bounds of dimensions; None if it can."""
        return None

    def finish_kernel(self, function: "tvm.tirx.PrimFunc") -> "tvm.tirx.PrimFunc":
        """A scheduled kernel after the passes for whole networks that affect its code."""
        return function

    def default_schedule_passes(self, target: "tvm.target.Target") -> list[Pass]:
        """Schedule the remaining kernels, so that they run."""
        return []

    def cache_matmul(
        self, left: Any, view: View, buffer: Any, product: Any, target: "tvm.target.Target"
    ) -> "tvm.tirx.PrimFunc | None":
        """A kernel that multiplies a tensor by the valid rows of a state's buffer, without a copy of them; None without one.

        Args:
            left: the type of the tensor.
            view: the right operand as a view of the buffer.
            buffer: the type of the buffer.
            product: the type of the result.
        """
        return None

    def codegen_passes(self, context: LoweringContext, scheduled: "tvm.IRModule") -> list[Pass]:
        """Transform scheduled kernels before memory is planned."""
        return [*self.default_schedule_passes(context.target), *view_reshapes()]

    def final_passes(self) -> list[Pass]:
        """Transform the module before code generation."""
        return []

    def kernel_pipeline(self) -> KernelPipeline:
        """The passes for single kernels."""
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
        """The target with the attributes that MetaSchedule's rules need; a schedule's code does not depend on them."""
        return target

    def device_kind(self, target: "tvm.target.Target") -> str:
        """The runtime's name for the device that kernels run on."""
        kind = str(target.kind.name)
        return "cpu" if kind == "c" else kind


def view_reshapes() -> list[Pass]:
    """Turn reshapes into views without a copy."""
    return [replace_reshapes_by_views, tvm.relax.transform.RewriteDataflowReshape()]
