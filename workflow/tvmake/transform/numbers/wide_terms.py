"""Compute products in float32 if they are summed in float32.

TVM's ToMixedPrecision computes a sum in float32 but its terms in float16. The squares in a norm then overflow for values
above 256 and vanish for values below 0.0002. The kernel keeps the terms in registers, where float32 costs nothing.
"""

from typing import Any

import tvm

from tvmake.ir.expressions import is_call
from tvmake.ir.rewriting import definition, rewritten

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

SUMS = ("sum", "mean", "variance", "std")

PRODUCTS = ("multiply", "power", "square")


def widen_terms(module: "tvm.IRModule") -> "tvm.IRModule":
    """Convert float16 products that are terms of float32 sums to float32."""
    return relax.transform.DeadCodeElimination()(rewritten(module, _TermWidener(module)))


@mutator
class _TermWidener(PyExprMutator):
    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        if not is_call(call, *SUMS):
            return call
        wide = definition(self, call.args[0])
        if not is_call(wide, "astype") or str(wide.ty.dtype) != "float32":
            return call
        product = definition(self, wide.args[0])
        if not is_call(product, *PRODUCTS) or str(product.ty.dtype) != "float16":
            return call
        operands = [self.builder_.emit(relax.op.astype(operand, "float32")) for operand in product.args]
        terms = self.builder_.emit(relax.Call(product.op, operands, product.attrs))
        return relax.Call(call.op, [terms, *call.args[1:]], call.attrs)
