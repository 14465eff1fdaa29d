"""Remove broadcasts that copy tensors for nothing.

PyTorch exports linear layers of transposed sequences as batched matmuls with a repeated matrix. Constant folding would store
a copy per batch. TVM's PyTorch importer also broadcasts both operands of a matmul to the dynamic shape that they already
have.
"""

from typing import Any

import tvm

from tvmake.ir.dimensions import is_known
from tvmake.ir.expressions import constant, dtype_name, extents, is_call, same_extents
from tvmake.ir.rewriting import definition, rewrite_calls

from tvm import relax  # isort: skip

REPEATING = ("broadcast_to", "reshape", "expand_dims")
"""Operators that may repeat a matrix without changing it, if the last two extents stay."""


def multiply_once(module: "tvm.IRModule") -> "tvm.IRModule":
    """Replace repeated matrices that are the right operand of a matmul."""
    return relax.transform.DeadCodeElimination()(rewrite_calls(module, _multiply_matrix))


def _multiply_matrix(visitor: Any, op: Any, call: Any) -> Any:
    if not is_call(call, "matmul"):
        return call
    left, right = call.args
    matrix = _matrix(visitor, right)
    # The left operand must have all batches of the result.
    if matrix is None or not same_extents(extents(left)[:-2], extents(op)[:-2]):
        return call
    return relax.Call(call.op, [left, matrix], call.attrs, call.ty_args)


def _matrix(visitor: Any, value: Any) -> Any | None:
    """Return the matrix that a tensor repeats in all batches; None if there is none."""
    call, matrix = value, None
    while True:
        call = definition(visitor, call)
        if not is_call(call, *REPEATING):
            return matrix
        source = call.args[0]
        if len(extents(source)) < 2 or not same_extents(extents(source)[-2:], extents(call)[-2:]):
            return matrix
        if len(extents(source)) == 2:
            matrix = source
        call = source


def drop_equal_broadcasts(module: "tvm.IRModule") -> "tvm.IRModule":
    """Remove broadcasts to the same dynamic shape."""
    is_dynamic = bool(relax.analysis.defined_symbolic_vars(module["main"]))
    return rewrite_calls(module, _drop_equal_broadcast) if is_dynamic else module


def _drop_equal_broadcast(visitor: Any, op: Any, call: Any) -> Any:
    shape = extents(op)
    if not is_call(call, "broadcast_to") or all(map(is_known, shape)):
        return call
    return call.args[0] if same_extents(extents(call.args[0]), shape) else call


def repeat_without_products(module: "tvm.IRModule") -> "tvm.IRModule":
    """Replace products with constant ones, as which ONNX networks repeat heads of dynamic length, by broadcasts."""
    is_dynamic = bool(relax.analysis.defined_symbolic_vars(module["main"]))
    return rewrite_calls(module, _repeat_without_product) if is_dynamic else module


def _repeat_without_product(_visitor: Any, op: Any, call: Any) -> Any:
    shape = extents(op)
    if not is_call(call, "multiply") or all(map(is_known, shape)):
        return call
    for operand, other in (call.args, reversed(call.args)):
        ones = constant(other)
        if ones is not None and ones.size > 1 and (ones == 1).all() and dtype_name(operand.ty) == dtype_name(other.ty):
            return relax.op.broadcast_to(operand, relax.ShapeExpr(shape))
    return call
