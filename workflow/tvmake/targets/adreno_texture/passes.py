"""From Relax operators to fused kernels, and their default schedules, for Adreno GPUs.

The order is that of TVM's ``relax.backend.adreno`` pipeline. With textures, convolutions use blocks of four channels,
consumers determine memory scopes, and kernels are specialised to the scopes of their arguments. Textures hold
floating-point values of 16 and 32 bits. Repair: `adreno-integers-in-textures`.
"""

from typing import Any

import tvm

from tvmake.ir.expressions import dtype_name, is_call
from tvmake.targets.adreno_texture.buffers import (
    rewrite_with_buffers,
    store_results_in,
    to_buffer_type,
    to_default_scope,
)
from tvmake.targets.adreno_texture.convolution import DATA, KERNEL, legalize_conv2d
from tvmake.targets.adreno_texture.kernel_scopes import scope_of, specialize_to_scopes, split_kernels_by_scope
from tvmake.targets.adreno_texture.scope_copies import COPY, TEXTURE, lower_scope_copies, take_arguments_in_buffers
from tvmake.targets.gpu.kernel_parts import split_large_kernels
from tvmake.targets.kernels.no_fuse_reverse import mark_reversed_reads
from tvmake.targets.numbers.norms import NORMS

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import mutator, PyExprMutator  # isort: skip

LAYOUTS = {"relax.nn.conv2d": [DATA, KERNEL, DATA], "relax.nn.conv2d_transpose": ["NCHW", "IOHW"]}
"""Layouts by operator, transposed convolutions included. Repair: `adreno-transposed-convolutions`."""

KEPT = ["relax.nn.conv2d", "relax.nn.max_pool2d", "relax.nn.adaptive_avg_pool2d"]
"""Operators whose attributes determine scopes; they are legalised after scopes are known."""

BLOCKED = [
    f"relax.{name}"
    for name in (
        "nn.conv2d_transpose", "nn.avg_pool2d", "nn.relu", "nn.leakyrelu", "nn.silu", "nn.gelu", "nn.gelu_tanh",
        "sigmoid", "tanh", "exp", "log", "sqrt", "rsqrt", "erf", "abs", "negative", "square", "floor", "ceil", "round",
        "clip", "concat", "astype",
    )
]  # fmt: skip
"""The other operators that TVM also computes on blocks of four channels."""

BLOCKED_PAIRS = [f"relax.{name}" for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power")]
"""Operators computed on blocks if both operands have the channels, or one is a single value."""

TEXELS = ("float16", "float32")
"""Element types of textures."""

LANES = 4

FEATURE_MAP_RANK = 4
"""Batch, channels, height and width: tensors of this rank can use blocks of channels."""


def texture_scopes(target: "tvm.target.Target") -> list[Any]:
    """Layouts and memory scopes, legalisation and fusion."""
    transform, adreno = tvm.relax.transform, tvm.relax.backend.adreno.transform
    return [
        # Operators that do not know the fifth axis are lowered first, and stay out of the blocks.
        transform.LegalizeOps(
            {**NORMS, **dict.fromkeys(BLOCKED_PAIRS, _legalize_pair), **dict.fromkeys(KEPT, _legalize_others)},
            skip_ops=BLOCKED,
        ),
        transform.ConvertLayout(LAYOUTS),
        transform.Normalize(),
        transform.FoldConstant(),
        transform.LegalizeOps(skip_ops=KEPT),
        transform.AnnotateTIROpPattern(),
        adreno.AnnotateCustomMemoryScope(target),
        take_arguments_in_buffers,
        store_others_in_buffers,
        transform.LegalizeOps({"relax.nn.conv2d": legalize_conv2d}),
        transform.AnnotateTIROpPattern(),
        mark_reversed_reads,
        transform.FoldConstant(),
        transform.FuseOps(),
        split_large_kernels,
        transform.FuseTIR(),
        transform.DeadCodeElimination(),
        adreno.FoldVDeviceScopeChange(),
        transform.DeadCodeElimination(),
    ]


def _legalize_pair(builder: "tvm.relax.BlockBuilder", call: "tvm.relax.Call") -> Any:
    """Keep a binary operator if blocks of channels support it; otherwise lower it."""
    shapes = [_extents(operand.ty) for operand in call.args]
    if len({shape for shape in shapes if shape}) == 1 or all(not shape or _has_blocks(shape) for shape in shapes):
        return call
    return call.op.get_attr("FLegalize")(builder, call)


def _legalize_others(builder: "tvm.relax.BlockBuilder", call: "tvm.relax.Call") -> Any:
    """Lower an operator that reads no texels, so that it stays in buffers."""
    if is_texel(call.args[0].ty):
        return call
    return call.op.get_attr("FLegalize")(builder, call)


def _extents(ty: Any) -> tuple[int, ...]:
    return tuple(int(extent) for extent in ty.shape)


def _has_blocks(shape: tuple[int, ...]) -> bool:
    return len(shape) == FEATURE_MAP_RANK and shape[1] % LANES == 0


def texture_kernels(module: "tvm.IRModule") -> "tvm.IRModule":
    """Specialise kernels to the memory scopes in their calls."""
    placed = specialize_to_scopes(split_kernels_by_scope(lower_scope_copies(module)))
    return tvm.relax.transform.Normalize()(to_default_scope(placed))


def is_texel(typed: Any) -> bool:
    """Whether tensors of a type can be textures."""
    return dtype_name(typed) in TEXELS


@tvm.transform.module_pass(opt_level=0, name="OthersInBuffers")
def store_others_in_buffers(module: "tvm.IRModule", _context: Any) -> "tvm.IRModule":
    """Store tensors of other dtypes in buffers; arguments are already there."""
    return rewrite_with_buffers(module, _TextureDtypeMutator)


def _is_unsupported_texture(ty: Any) -> bool:
    return TEXTURE in scope_of(ty) and not is_texel(ty)


@mutator
class _TextureDtypeMutator(PyExprMutator):
    """Rewrites calls."""

    def __init__(self, module: "tvm.IRModule", device: "relax.VDevice"):
        super().__init__(module)
        self.device = device

    def visit_generic_const_(self, op: Any) -> Any:
        """A constant in a buffer, if textures cannot store its dtype."""
        ty = to_buffer_type(op.ty, self.device, _is_unsupported_texture)
        return op if ty is op.ty else tvm.ir.GenericConst(op.value, ty, op.span)

    def visit_call_(self, op: Any) -> Any:
        """A kernel call with such results in buffers; a copy of such a tensor becomes the tensor itself."""
        call = self.visit_expr_post_order(op)
        if is_call(call, COPY) and not is_texel(op.ty):
            return call.args[0]
        return store_results_in(call, self.device, _is_unsupported_texture)
