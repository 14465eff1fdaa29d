"""From Relax operators to fused kernels, and their default schedules, for Adreno GPUs.

The order is that of TVM's ``relax.backend.adreno`` pipeline. Textures: convolutions in blocks of four channels, memory
scopes by what consumers want, kernels specialised to the scopes of their arguments.
"""

from typing import Any

from tvmake.quick_tvm import tvm
from tvmake.target.adreno.careful_rule import Careful
from tvmake.target.adreno.convolution import DATA, KERNEL, legalize_conv2d
from tvmake.target.adreno.kernel_scopes import split_kernels_by_scope
from tvmake.target.adreno.scope_copies import copies_as_kernels
from tvmake.target.adreno.whole_pixels import WholePixels

LAYOUTS = {"relax.nn.conv2d": [DATA, KERNEL, DATA], "relax.nn.conv2d_transpose": ["NCHW", "IOHW"]}
"""Transposed convolutions have no kernel in blocks of channels, and TVM 0.27 stops where it is not told so."""

KEPT = ["relax.nn.conv2d", "relax.nn.max_pool2d", "relax.nn.adaptive_avg_pool2d"]
"""Operators whose attributes decide on scopes, so that they are legalised after that."""


def texture_scopes(target: "tvm.target.Target") -> list[Any]:
    """Layouts and memory scopes, legalisation and fusion."""
    transform, adreno = tvm.relax.transform, tvm.relax.backend.adreno.transform
    return [
        transform.ConvertLayout(LAYOUTS),
        transform.Normalize(),
        transform.FoldConstant(),
        transform.LegalizeOps(skip_ops=KEPT),
        transform.AnnotateTIROpPattern(),
        adreno.AnnotateCustomMemoryScope(target),
        transform.LegalizeOps({"relax.nn.conv2d": legalize_conv2d}),
        transform.AnnotateTIROpPattern(),
        transform.FoldConstant(),
        transform.FuseOps(),
        transform.FuseTIR(),
        transform.DeadCodeElimination(),
        adreno.FoldVDeviceScopeChange(),
        transform.DeadCodeElimination(),
    ]


def texture_kernels(module: "tvm.IRModule") -> "tvm.IRModule":
    """Kernels whose buffers have the scopes of what they are called with."""
    transform = tvm.relax.transform
    return tvm.transform.Sequential([transform.SpecializePrimFuncBasedOnCallSite(), transform.Normalize()])(
        split_kernels_by_scope(copies_as_kernels(module))
    )


def schedules(target: "tvm.target.Target") -> list[Any]:
    """Default schedules."""
    from tvm.s_tir import dlight

    adreno, gpu = dlight.adreno, dlight.gpu
    own = [adreno.Conv2d(), adreno.LayoutTransform(), adreno.Pool2D(), WholePixels()]
    return [
        dlight.ApplyDefaultSchedule(*(Careful(rule) for rule in own)),
        dlight.ApplyDefaultSchedule(gpu.Matmul(), gpu.GEMV(), gpu.Reduction(), gpu.GeneralReduction(), gpu.Fallback()),
    ]
