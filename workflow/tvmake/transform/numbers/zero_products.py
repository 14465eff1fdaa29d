"""Preserve NaN for multiplications of infinities and NaN by a constant zero.

The multiplication becomes a ``where``. Repair: `multiplication-by-zero`.
"""

import math
from typing import Any

import tvm

from tvmake.ir.expressions import constant, extents, is_call, same_extents
from tvmake.ir.rewriting import definition, rewritten

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip


def keep_infinities(module: "tvm.IRModule") -> "tvm.IRModule":
    """Replace floating-point multiplications by a single constant zero."""
    return rewritten(module, _ZeroProductKeeper(module))


@mutator
class _ZeroProductKeeper(PyExprMutator):
    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        if not is_call(call, "multiply") or "float" not in str(call.ty.dtype):
            return call
        for factor, other in (call.args, reversed(call.args)):
            known = constant(definition(self, factor))
            is_kept = same_extents(extents(other), extents(call))
            if known is not None and known.size == 1 and not known.any() and is_kept:
                zero, nan = (relax.const(value, str(call.ty.dtype)) for value in (0.0, math.nan))
                return relax.op.where(self.builder_.emit(relax.op.isfinite(other)), zero, nan)
        return call
