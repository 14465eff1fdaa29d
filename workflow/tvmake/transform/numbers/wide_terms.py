"""Compute products in float32 if they are summed in float32.

TVM's ToMixedPrecision computes a sum in float32 but its terms in float16. The squares in a norm then overflow for values
above 256 and vanish for values below 0.0002. The kernel keeps the terms in registers, where float32 costs nothing.
"""

from typing import Any

import tvm

from tvmake.ir.expressions import is_call
from tvmake.ir.rewriting import definition, rewrite_calls

from tvm import relax  # isort: skip

SUMS = ("sum", "mean", "variance", "std")

PRODUCTS = ("multiply", "power", "square")


def widen_terms(module: "tvm.IRModule") -> "tvm.IRModule":
    """Convert float16 products that are terms of float32 sums to float32."""
    return relax.transform.DeadCodeElimination()(rewrite_calls(module, _widen_terms_of))


def _widen_terms_of(visitor: Any, op: Any, call: Any) -> Any:
    if not is_call(call, *SUMS):
        return call
    wide = definition(visitor, call.args[0])
    if not is_call(wide, "astype") or str(wide.ty.dtype) != "float32":
        return call
    product = definition(visitor, wide.args[0])
    if not is_call(product, *PRODUCTS) or str(product.ty.dtype) != "float16":
        return call
    operands = [visitor.builder_.emit(relax.op.astype(operand, "float32")) for operand in product.args]
    terms = visitor.builder_.emit(relax.Call(product.op, operands, product.attrs))
    return relax.Call(call.op, [terms, *call.args[1:]], call.attrs)
