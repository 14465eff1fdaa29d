"""Element types that textures can store.

Textures hold floating-point values of 16 and 32 bits. Repair: `adreno-integers-in-textures`.
"""

from typing import Any

import tvm

from tvmake.ir.expressions import dtype_name, is_call
from tvmake.targets.adreno_texture.buffers import rewrite_with_buffers, store_results_in, to_buffer_type
from tvmake.targets.adreno_texture.kernel_scopes import scope_of
from tvmake.targets.adreno_texture.scope_copies import COPY, TEXTURE

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

TEXELS = ("float16", "float32")
"""Element types of textures."""


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
