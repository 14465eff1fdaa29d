"""From a transformed module to one that the code generator takes.

TVM 0.27 chooses a pipeline in ``relax.build``. The phases here are the same, per target, with user passes and records
applied between them, and the fused kernels at hand.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm

from tvmake.artifact.empty_tensors import AllocateEmpty
from tvmake.codegen.clml_offload import asks_for_clml, with_clml
from tvmake.codegen.kernel_names import shorten_kernel_names
from tvmake.codegen.memory_plan import PlanMemory
from tvmake.codegen.passes import pass_context
from tvmake.codegen.size_check_messages import ReportSizeChecks
from tvmake.config.build import PassOptions
from tvmake.config.transform import UserPass
from tvmake.errors import InputError
from tvmake.ir.bounds import bounds_of
from tvmake.targets import gpu_rules
from tvmake.targets.bound_rule import refuse_unbound
from tvmake.targets.cpu.channels_last import channels_last
from tvmake.targets.cpu.integers.borders import take_in_borders
from tvmake.targets.cpu.integers.integer_products import suit_products
from tvmake.targets.cpu.schedules.apply import apply_rules
from tvmake.targets.cpu.schedules.machine import machine
from tvmake.targets.cpu.unpacking import unpack_in_sums
from tvmake.targets.cpu.vectors.parts import read_parts_in_place
from tvmake.targets.cpu.winograd import with_fewer_products
from tvmake.targets.cuda import tf32_networks
from tvmake.targets.cuda.half_remainders import WideRemainders
from tvmake.targets.dynamic_reshapes import RESHAPES, ViewReshapes
from tvmake.targets.empty_reductions import InitializeEmptyReductions
from tvmake.targets.gpu.shape_changes import move_shape_changes
from tvmake.targets.kernel_parts import PartLargeKernels
from tvmake.targets.kernel_pipeline import uses_textures
from tvmake.targets.name_dimensions import name_dimensions
from tvmake.targets.nearest_resizes import NEAREST_RESIZES
from tvmake.targets.numbers.norms import NORMS
from tvmake.targets.opencl.scans import SumsAsReductions
from tvmake.targets.reversals import KeepReversals
from tvmake.targets.scalar_arguments import PassScalarsInShapes
from tvmake.targets.shape_order import OrderShapeStores, ordered_shape_variables
from tvmake.targets.size_order import OrderSizes
from tvmake.targets.weights.layout_free import mark_layout_free
from tvmake.targets.weights.layouts import take_out_weight_layouts
from tvmake.targets.weights.prepack import Packing, Prepacked, prepack
from tvmake.transform.simplify_shapes import simplify_shapes
from tvmake.transform.user_passes import apply_user_passes

PYTHON_FUNCTIONS = "relax.run."
"""How the names begin of the functions by which TVM 0.27 computes operators in Python."""


@dataclass(frozen=True)
class Applied:
    """A fused module after records have been applied."""

    module: "tvm.IRModule"
    tuned: Mapping[str, str] = field(default_factory=dict)
    """The tensor functions that a record scheduled, with the record's digest."""
    misses: Mapping[str, str] = field(default_factory=dict)
    """The others, with the reason why there is no record for them."""


Records = Callable[["tvm.IRModule"], Applied]
"""Applies tuning records to a fused module (``tvmake.codegen.scheduling.apply``)."""


@dataclass(frozen=True)
class Lowered:
    """A module on its way to the code generator."""

    fused: "tvm.IRModule"
    """Relax calling fused tensor functions: those with a record scheduled by it, others by tvmake's rules; else unscheduled."""
    final: "tvm.IRModule"
    """Ready for code generation."""
    unscheduled: "tvm.IRModule"
    """``fused`` before records were applied."""
    tuned: Mapping[str, str] = field(default_factory=dict)
    """The tensor functions that a tuning record scheduled, with its digest; default GPU schedules are not tuning."""
    misses: Mapping[str, str] = field(default_factory=dict)
    """Where there are records: the functions without one, with the reason."""
    ruled: frozenset[str] = frozenset()
    """The tensor functions that a rule scheduled."""
    packings: tuple[Packing, ...] = ()
    """What makes ``main``'s parameters of the model's; nothing to do when empty."""
    unpacked: "tvm.IRModule | None" = None
    """``fused`` before weights were taken out of kernels, to be packed when the package is built."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """The tensor functions that a rule scheduled in a way there is no code for, so that they go without; with the reason."""


def lower(
    module: "tvm.IRModule",
    target: "tvm.target.Target",
    passes: Sequence[UserPass],
    options: PassOptions,
    inputs: int = 0,
    records: Records | None = None,
    cuda_graph: bool = False,
    rules: bool = True,
    refused: Collection[str] = (),
    instruments: Sequence[Any] = (),
) -> Lowered:
    """Lower a module for a target.

    Args:
        inputs: how many of ``main``'s arguments are the model's inputs; needed with records.
        records: what schedules the kernels that have been tuned.
        cuda_graph: have CUDA targets record their kernels as a graph.
        rules: schedule kernels by tvmake's rules where there is no record.
        refused: kernels to leave without: as plain loops on CPUs, to TVM's rules on GPUs.
        instruments: what is to see each pass.

    Raises:
        InputError: a user pass fails; a kernel for a GPU has no schedule that runs there.
    """
    bounds = bounds_of(module)
    has_rules = rules and is_cpu(target)
    packs = (records is not None or has_rules) and packs_weights(target)
    graph = fused_graph(module, target, passes, options, inputs, layout_free=packs, instruments=instruments)
    unscheduled, packings = graph.module, graph.packings
    applied = records(unscheduled) if records else Applied(unscheduled)
    fused, ruled = applied.module, frozenset[str]()
    if has_rules:
        fused, ruled = apply_rules(fused, target, refused)
    elif is_gpu(target):
        fused = gpu_rules.apply_rules(fused, target, refused) if rules else fused
        ruled = frozenset(_kernels(fused) - applied.tuned.keys())
    unpacked, transform = fused, tvm.relax.transform
    graphs = [transform.RewriteCUDAGraph()] if cuda_graph and target.kind.name == "cuda" else []
    switches = {"relax.backend.use_cuda_graph": bool(graphs)}
    with target, pass_context(options, switches, instruments), ordered_shape_variables():
        if packs:
            prepacked = prepack(fused, inputs)
            fused, packings = prepacked.module, (*packings, *prepacked.packings)
        final = tvm.transform.Sequential(
            [
                *_schedule(target),
                *([InitializeEmptyReductions()] if is_cpu(target) else []),
                *_views(fused, target),
                transform.ToNonDataflow(),
                transform.RemovePurityChecking(),
                AllocateEmpty(),
                transform.CallTIRRewrite(),
                PlanMemory(bounds),
                *graphs,
                transform.LowerAllocTensor(),
                transform.KillAfterLastUse(),
                transform.LowerRuntimeBuiltin(),
                transform.ComputePrimValue(),
                transform.VMShapeLower(),
                ReportSizeChecks(),
                OrderShapeStores(),
                transform.AttachGlobalSymbol(),
            ]
        )(_copy(fused))
        if is_gpu(target):
            refuse_unbound(final)
        if uses_textures(target):
            from tvmake.targets.adreno.one_device import on_one_device

            final = on_one_device(final)
    return Lowered(fused, final, unscheduled, applied.tuned, applied.misses, ruled, packings, unpacked)


CHOICE = "relax.vision.all_class_non_max_suppression"


def _refuse_choice(module: "tvm.IRModule") -> None:
    """Refuse a choice of boxes for a GPU: how many it keeps is known when it has run, where kernels are launched for fixed extents.

    Raises:
        InputError: there is one.
    """
    found = False

    def visit(expression: Any) -> None:
        nonlocal found
        found |= isinstance(expression, tvm.relax.Call) and expression.op == tvm.ir.Op.get(CHOICE)

    tvm.relax.analysis.post_order_visit(module["main"], visit)
    if found:
        raise InputError(
            "targets",
            "how many boxes NonMaxSuppression keeps depends on the data, and kernels of GPUs need fixed shapes",
            "choose boxes after the network has run, or take a target of kind llvm",
        )


def refuse_python_functions(module: "tvm.IRModule", where: str) -> None:
    """Refuse a lowered module with operators that TVM computes by functions written in Python: packages run without it.

    Raises:
        InputError: naming the operators.
    """
    found: set[str] = set()

    def visit(expression: Any) -> None:
        if isinstance(expression, tvm.relax.ExternFunc) and expression.global_symbol.startswith(PYTHON_FUNCTIONS):
            found.add(f"relax.{expression.global_symbol.removeprefix(PYTHON_FUNCTIONS)}")

    for _, function in module.functions_items():
        if isinstance(function, tvm.relax.Function):
            tvm.relax.analysis.post_order_visit(function, visit)
    if found:
        problem = f"TVM computes {', '.join(sorted(found))} in Python, which packages run without"
        raise InputError(
            where, problem, "fix the dynamic extents under `dims`, or leave what needs it out of the network"
        )


def fused_module(
    module: "tvm.IRModule",
    target: "tvm.target.Target",
    passes: Sequence[UserPass],
    options: PassOptions,
    inputs: int,
    layout_free: bool,
) -> "tvm.IRModule":
    """The module of :func:`fused_graph`."""
    return fused_graph(module, target, passes, options, inputs, layout_free).module


def fused_graph(
    module: "tvm.IRModule",
    target: "tvm.target.Target",
    passes: Sequence[UserPass],
    options: PassOptions,
    inputs: int,
    layout_free: bool,
    instruments: Sequence[Any] = (),
) -> Prepacked:
    """The graph of fused, unscheduled kernels: what kernels to tune are taken from, and what a build goes on from.

    Args:
        inputs: how many of ``main``'s arguments are the model's inputs.
        layout_free: let tuning choose the layout of weights (see :func:`packs_weights`).

    Raises:
        InputError: a user pass fails.
    """
    with target, pass_context(options, instruments=instruments), ordered_shape_variables():
        module = simplify_shapes(apply_user_passes(module, passes, "before_legalize"))
        if is_gpu(target):
            _refuse_choice(module)
        if uses_textures(target):
            graph = _texture_graph(module, target, inputs)
        else:
            has_clml = asks_for_clml(target)
            if has_clml:
                module = with_clml(module, inputs)
            elif is_gpu(target):
                module = move_shape_changes(module)
            module = tvm.transform.Sequential(_dispatch(target))(module)
            if is_cpu(target):
                module = suit_products(
                    module, target, inputs
                )  # of matrices, which are lowered with what is in no layout
                module = take_in_borders(suit_products(channels_last(read_parts_in_place(module)), target, inputs))
                if layout_free:
                    module = with_fewer_products(module, machine(target).lanes(32), inputs)
            graph = Prepacked(tvm.transform.Sequential(_legalize(target))(module), ())
            if is_cpu(target):
                graph = take_out_weight_layouts(unpack_in_sums(graph.module), inputs)
            elif has_clml:
                graph = take_out_weight_layouts(graph.module, inputs)
        kernels = shorten_kernel_names(graph.module)
        if is_cpu(target):
            kernels = name_dimensions(kernels)
        if target.kind.name == "cuda":
            kernels = tf32_networks.pass_on(kernels)
        fused = apply_user_passes(kernels, passes, "after_fusion")
    return Prepacked(mark_layout_free(fused, inputs) if layout_free else fused, graph.packings)


def _texture_graph(module: "tvm.IRModule", target: "tvm.target.Target", inputs: int) -> Prepacked:
    """As the other targets' graphs, with tensors in images, and weights in the layout that goes with it."""
    from tvmake.targets.adreno.fresh_module import fresh
    from tvmake.targets.adreno.passes import texture_kernels, texture_scopes

    symbols = sorted({str(var.name) for var in tvm.relax.analysis.defined_symbolic_vars(module["main"])})
    if symbols:
        raise InputError(
            "targets",
            f"textures need fixed shapes, and the model has the dimensions {', '.join(symbols)}",
            "set them under `dims`, or take a target without textures (adreno-…-buffer)",
        )
    placed = tvm.transform.Sequential([*_dispatch(target), *texture_scopes(target)])(fresh(module))
    graph = take_out_weight_layouts(placed, inputs)
    return Prepacked(texture_kernels(graph.module), graph.packings)


def packs_weights(target: "tvm.target.Target") -> bool:
    """Whether kernels tuned for a target choose their weights' layout: MetaSchedule does not offer it for GPUs."""
    return not is_gpu(target)


def default_schedule(module: "tvm.IRModule", kernel: str, target: "tvm.target.Target") -> "tvm.tirx.PrimFunc":
    """An unscheduled kernel as TVM's own rules schedule it for a target: on CPUs, as it is."""
    alone = tvm.IRModule({kernel: module[kernel]}, attrs=module.attrs, global_infos=module.global_infos)
    with target:
        return tvm.transform.Sequential(_schedule(target))(alone)[kernel]


def _kernels(module: "tvm.IRModule") -> set[str]:
    return {str(name.name_hint) for name, each in module.functions_items() if isinstance(each, tvm.tirx.PrimFunc)}


def _copy(module: "tvm.IRModule") -> "tvm.IRModule":
    """A module of its own with the same functions: dlight's passes replace functions in the module they are given."""
    return tvm.IRModule(dict(module.functions_items()), attrs=module.attrs, global_infos=module.global_infos)


def is_cpu(target: "tvm.target.Target") -> bool:
    """Whether kernels run on a CPU, by LLVM's code."""
    return target.kind.name == "llvm"


def is_gpu(target: "tvm.target.Target") -> bool:
    """Whether kernels need thread bindings."""
    return "gpu" in target.keys


def _dispatch(target: "tvm.target.Target") -> list[Any]:
    backend = tvm.relax.backend
    scans = [SumsAsReductions()] if target.kind.name == "opencl" else []
    remainders = [WideRemainders()] if target.kind.name == "cuda" else []
    return [*remainders, *scans, backend.DispatchSampling(), backend.DispatchSortScan()]


def _legalize(target: "tvm.target.Target") -> list[Any]:
    transform = tvm.relax.transform
    return [
        transform.LegalizeOps({**NORMS, **RESHAPES, **NEAREST_RESIZES}),
        transform.AnnotateTIROpPattern(),
        KeepReversals(),
        transform.FoldConstant(),
        transform.FuseOps(),
        OrderSizes(),
        *([PartLargeKernels()] if is_gpu(target) else []),
        PassScalarsInShapes(),
        transform.FuseTIR(),
        transform.DeadCodeElimination(),
    ]


def _views(fused: "tvm.IRModule", target: "tvm.target.Target") -> list[Any]:
    """Reshapes without a copy. TVM takes a copy between a buffer and a texture for one, which is a kernel's work."""
    if uses_textures(target):
        from tvmake.targets.adreno.scope_copies import reshapes_textures

        if reshapes_textures(fused):
            return []
    return [ViewReshapes(), tvm.relax.transform.RewriteDataflowReshape()]


def _schedule(target: "tvm.target.Target") -> list[Any]:
    """Default schedules, which GPUs need to run at all."""
    from tvm.s_tir import dlight

    return [dlight.ApplyDefaultSchedule(*gpu_rules.default_rules(target))] if is_gpu(target) else []
