"""Replace batched matmuls with a repeated matrix by matmuls with the matrix.

PyTorch exports linear layers of transposed sequences in this form. Constant folding would store a copy per batch.
"""

from typing import Any

import tvm

from tvmake.ir.expressions import extents, is_call, same_extents
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
