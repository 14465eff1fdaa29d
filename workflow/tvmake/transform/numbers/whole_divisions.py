"""Divisions by zero that end no process.

A processor stops a program that divides a whole number by zero. PyTorch raises an error and ONNX says nothing of it, but where both
branches of a choice are computed, the one that is not taken may well divide by what the other is there for. A quotient by zero is
the dividend here, a remainder zero.

The guard compares the size of `y` as a floating-point value, of which the simplifier concludes nothing. Repair: `guarded-divisions`.

A quotient of floating-point values by a constant zero is written as a multiplication. Repair: `division-by-constant-zero`.
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
    """The same network, with one for zero in divisors of whole numbers that are not constants, and no others by a constant zero."""
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
