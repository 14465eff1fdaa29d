"""Guard integer divisions by zero.

A processor stops a program that divides an integer by zero. PyTorch raises an error, and ONNX does not define the result.
But both branches of a ``where`` are computed, and the branch that is not taken may divide by zero. Here a quotient by zero
is the dividend, and a remainder is zero.

The guard compares ``abs(y)`` in floating point, which the simplifier does not analyse. Repair: `guarded-divisions`.

A floating-point division by a constant zero becomes a multiplication. Repair: `division-by-constant-zero`.
"""

import math
from typing import Any

import tvm

from tvmake.ir.expressions import constant, is_call
from tvmake.ir.rewriting import definition, rewritten

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

DIVISIONS = ("divide", "floor_divide", "mod", "floor_mod")


def divide_by_no_zero(module: "tvm.IRModule") -> "tvm.IRModule":
    """Replace zeros in integer divisors by one, and floating-point divisions by a constant zero."""
    return rewritten(module, _DivisionGuard(module))


@mutator
class _DivisionGuard(PyExprMutator):
    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        if not is_call(call, *DIVISIONS):
            return call
        dividend, divisor = call.args
        known = constant(definition(self, divisor))
        if not str(divisor.ty.dtype).startswith(("int", "uint")):
            if known is None or known.ndim or known:
                return call
            factor = math.copysign(math.inf, known) if is_call(call, "divide", "floor_divide") else math.nan
            return relax.op.multiply(dividend, relax.const(factor, str(divisor.ty.dtype)))
        if known is not None and known.all():
            return call
        emit, dtype = self.builder_.emit, str(divisor.ty.dtype)
        size = emit(relax.op.abs(emit(relax.op.astype(divisor, "float32"))))
        is_zero = emit(relax.op.less(size, relax.const(0.5, "float32")))
        nonzero = emit(relax.op.where(is_zero, relax.const(1, dtype), divisor))
        return relax.Call(call.op, [dividend, nonzero], call.attrs)
