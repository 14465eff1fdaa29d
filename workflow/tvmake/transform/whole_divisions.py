"""Divisions of whole numbers that end no process.

A processor stops a program that divides a whole number by zero. PyTorch raises an error and ONNX says nothing of it, but where both
branches of a choice are computed, the one that is not taken may well divide by what the other is there for. A quotient by zero is
the dividend here, a remainder zero.

A choice by `y == 0` around the division tells TVM's simplifier that `y` is no zero there, and it drops the guard, while the processor
divides in both branches: the guard asks for the size of `y`, of which the simplifier concludes nothing.
"""

from typing import Any

import tvm

from tvmake.ir.expressions import constant, is_call
from tvmake.ir.rewriting import definition, rewritten

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

DIVISIONS = ("divide", "floor_divide", "mod", "floor_mod")


def divide_by_no_zero(module: "tvm.IRModule") -> "tvm.IRModule":
    """The same network, with one for zero in divisors of whole numbers that are not constants."""
    return rewritten(module, _Guarding(module))


@mutator
class _Guarding(PyExprMutator):
    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        if not is_call(call, *DIVISIONS) or not str(call.args[1].ty.dtype).startswith(("int", "uint")):
            return call
        dividend, divisor = call.args
        known = constant(definition(self, divisor))
        if known is not None and known.all():
            return call
        emit, dtype = self.builder_.emit, str(divisor.ty.dtype)
        size = emit(relax.op.abs(emit(relax.op.astype(divisor, "int64"))))
        is_zero = emit(relax.op.less(size, relax.const(1, "int64")))
        nonzero = emit(relax.op.where(is_zero, relax.const(1, dtype), divisor))
        return relax.Call(call.op, [dividend, nonzero], call.attrs)
