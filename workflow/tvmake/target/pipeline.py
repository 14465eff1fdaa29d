"""From a transformed module to one the code generator takes: the phases of TVM's own pipelines, made visible.

TVM 0.27 chooses a pipeline in ``relax.build``; the phases here are the same, per target, with room between them for
user passes, for records, and for a look at the fused kernels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvmake.config.transform import UserPass
from tvmake.quick_tvm import tvm
from tvmake.target.shape_order import OrderShapeStores, ordered_shape_variables
from tvmake.transform.user_passes import apply_user_passes


@dataclass(frozen=True)
class Lowered:
    """A module on its way to the code generator."""

    fused: "tvm.IRModule"
    """Relax calling fused tensor functions, still unscheduled."""
    final: "tvm.IRModule"
    """Ready for code generation."""
    tuned: frozenset[str] = frozenset()
    """The tensor functions that a tuning record scheduled; default GPU schedules are not tuning."""


def lower(module: "tvm.IRModule", target: "tvm.target.Target", passes: Sequence[UserPass], opt_level: int) -> Lowered:
    """Lower a module for a target.

    Raises:
        InputError: a user pass fails.
    """
    transform = tvm.relax.transform
    with target, tvm.transform.PassContext(opt_level=opt_level), ordered_shape_variables():
        module = apply_user_passes(module, passes, "before_legalize")
        module = tvm.transform.Sequential([*_dispatch(target), *_legalize()])(module)
        fused = apply_user_passes(module, passes, "after_fusion")
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
    return Lowered(fused, final)


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
