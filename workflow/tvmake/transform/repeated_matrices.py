"""Products with one matrix that is repeated for every batch, as products with the matrix itself.

PyTorch writes linear layers of transposed sequences so. Folded, the copies of a weight are as many times as large as it is.
"""

from typing import Any

import tvm

from tvmake.ir.expressions import extents, is_call, same_extents
from tvmake.ir.rewriting import definition, rewritten

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

REPEATING = ("broadcast_to", "reshape", "expand_dims")
"""Operators that leave a matrix as it is, and repeat it, where the last two extents stay."""


def multiply_once(module: "tvm.IRModule") -> "tvm.IRModule":
    """The same network, with matrices for their copies where they are the right operand of a product."""
    return relax.transform.DeadCodeElimination()(rewritten(module, _RepeatedMatrixMutator(module)))


@mutator
class _RepeatedMatrixMutator(PyExprMutator):
    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        if not is_call(call, "matmul"):
            return call
        left, right = call.args
        matrix = self._matrix(right)
        # The result has the batches of the left operand, then, as it has to.
        if matrix is None or not same_extents(extents(left)[:-2], extents(op)[:-2]):
            return call
        return relax.Call(call.op, [left, matrix], call.attrs, call.ty_args)

    def _matrix(self, value: Any) -> Any | None:
        """The one that all batches of a tensor are; None where they differ, or it has none."""
        made, found = value, None
        while True:
            made = definition(self, made)
            if not is_call(made, *REPEATING):
                return found
            source = made.args[0]
            if len(extents(source)) < 2 or not same_extents(extents(source)[-2:], extents(made)[-2:]):
                return found
            if len(extents(source)) == 2:
                found = source
            made = source
