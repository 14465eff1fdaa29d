"""From a transformed module to one the code generator takes: the phases of TVM's own pipelines, made visible.

TVM 0.27 chooses a pipeline in ``relax.build``; the phases here are the same, per target, with room between them for
user passes, for records, and for a look at the fused kernels.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvmake.config.transform import UserPass
from tvmake.quick_tvm import tvm
from tvmake.target.layout_free import mark_layout_free
from tvmake.target.prepack import Packing, prepack
from tvmake.target.shape_order import OrderShapeStores, ordered_shape_variables
from tvmake.transform.user_passes import apply_user_passes


@dataclass(frozen=True)
class Applied:
    """A fused module after records have been applied."""

    module: "tvm.IRModule"
    tuned: Mapping[str, str] = field(default_factory=dict)
    """The tensor functions that a record scheduled, with the record's digest."""
    misses: Mapping[str, str] = field(default_factory=dict)
    """The others, with the reason why there is no record for them."""


Records = Callable[["tvm.IRModule"], Applied]
"""Applies tuning records to a fused module (``tvmake.build.apply``)."""


@dataclass(frozen=True)
class Lowered:
    """A module on its way to the code generator."""

    fused: "tvm.IRModule"
    """Relax calling fused tensor functions: those with a record scheduled by it, the others still unscheduled."""
    final: "tvm.IRModule"
    """Ready for code generation."""
    unscheduled: "tvm.IRModule"
    """``fused`` before records were applied."""
    tuned: Mapping[str, str] = field(default_factory=dict)
    """The tensor functions that a tuning record scheduled, with its digest; default GPU schedules are not tuning."""
    misses: Mapping[str, str] = field(default_factory=dict)
    """Where there are records: the functions without one, with the reason."""
    packings: tuple[Packing, ...] = ()
    """What makes ``main``'s parameters of the model's; nothing to do when empty."""


def lower(
    module: "tvm.IRModule",
    target: "tvm.target.Target",
    passes: Sequence[UserPass],
    opt_level: int,
    inputs: int = 0,
    records: Records | None = None,
) -> Lowered:
    """Lower a module for a target.

    Args:
        inputs: how many of ``main``'s arguments are the model's inputs; needed with records.
        records: what schedules the kernels that have been tuned.

    Raises:
        InputError: a user pass fails.
    """
    packs = records is not None and packs_weights(target)
    fused = unscheduled = fused_module(module, target, passes, opt_level, inputs, layout_free=packs)
    applied = records(fused) if records else Applied(fused)
    fused, packings = applied.module, ()
    transform = tvm.relax.transform
    with target, tvm.transform.PassContext(opt_level=opt_level), ordered_shape_variables():
        if packs:
            prepacked = prepack(fused, inputs)
            fused, packings = prepacked.module, prepacked.packings
        final = tvm.transform.Sequential(
            [
                *_schedule(target),
                transform.RewriteDataflowReshape(),
                transform.ToNonDataflow(),
                transform.RemovePurityChecking(),
                transform.CallTIRRewrite(),
                transform.StaticPlanBlockMemory(),
                transform.LowerAllocTensor(),
                transform.KillAfterLastUse(),
                transform.LowerRuntimeBuiltin(),
                transform.ComputePrimValue(),
                transform.VMShapeLower(),
                OrderShapeStores(),
                transform.AttachGlobalSymbol(),
            ]
        )(_copy(fused))
    return Lowered(fused, final, unscheduled, applied.tuned, applied.misses, packings)


def fused_module(
    module: "tvm.IRModule",
    target: "tvm.target.Target",
    passes: Sequence[UserPass],
    opt_level: int,
    inputs: int,
    layout_free: bool,
) -> "tvm.IRModule":
    """The graph of fused, unscheduled kernels: what kernels to tune are taken from, and what a build goes on from.

    Args:
        inputs: how many of ``main``'s arguments are the model's inputs.
        layout_free: let tuning choose the layout of weights (see :func:`packs_weights`).

    Raises:
        InputError: a user pass fails.
    """
    with target, tvm.transform.PassContext(opt_level=opt_level), ordered_shape_variables():
        module = apply_user_passes(module, passes, "before_legalize")
        module = tvm.transform.Sequential([*_dispatch(target), *_legalize()])(module)
        fused = apply_user_passes(module, passes, "after_fusion")
    return mark_layout_free(fused, inputs) if layout_free else fused


def packs_weights(target: "tvm.target.Target") -> bool:
    """Whether kernels tuned for a target choose their weights' layout: MetaSchedule does not offer it for GPUs."""
    return not is_gpu(target)


def _copy(module: "tvm.IRModule") -> "tvm.IRModule":
    """A module of its own with the same functions: dlight's passes replace functions in the module they are given."""
    return tvm.IRModule(dict(module.functions_items()), attrs=module.attrs, global_infos=module.global_infos)


def is_gpu(target: "tvm.target.Target") -> bool:
    """Whether kernels need thread bindings."""
    return "gpu" in target.keys


def _dispatch(target: "tvm.target.Target") -> list[Any]:
    backend = tvm.relax.backend
    return [backend.DispatchSampling(), backend.DispatchSortScan()]


def _legalize() -> list[Any]:
    transform = tvm.relax.transform
    return [
        transform.LegalizeOps(),
        transform.AnnotateTIROpPattern(),
        transform.FoldConstant(),
        transform.FuseOps(),
        transform.FuseTIR(),
        transform.DeadCodeElimination(),
    ]


def _schedule(target: "tvm.target.Target") -> list[Any]:
    """Default schedules, which GPUs need to run at all."""
    if not is_gpu(target):
        return []
    from tvm.s_tir import dlight

    gpu = dlight.gpu
    return [
        dlight.ApplyDefaultSchedule(gpu.Matmul(), gpu.GEMV(), gpu.Reduction(), gpu.GeneralReduction(), gpu.Fallback())
    ]
