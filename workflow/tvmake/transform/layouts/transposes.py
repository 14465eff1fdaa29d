"""Element-wise operators in the layout of what they are computed from.

Repair: `layout-of-choices`.
"""

import math
from typing import Any

import tvm

from tvmake.ir.expressions import is_call
from tvmake.ir.rewriting import definition, rewritten

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

OF_ONE = (
    "nn.relu", "nn.silu", "nn.gelu", "nn.gelu_tanh", "sigmoid", "tanh", "sin", "cos", "exp", "log", "sqrt", "rsqrt", "erf", "abs",
    "negative", "sign", "square", "floor", "ceil", "round", "astype",
)  # fmt: skip
"""Element-wise operators of one operand."""

OF_SEVERAL = (
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "greater", "greater_equal", "less", "less_equal", "equal",
    "not_equal", "where",
)  # fmt: skip
"""Those of several, which may have extents of one where others have more."""


def transpose_afterwards(module: "tvm.IRModule") -> "tvm.IRModule":
    """Write element-wise operators on transposed tensors as transposed results, and a transposition that another takes back as neither."""
    return relax.transform.CanonicalizeBindings()(rewritten(module, _TransposeSinker(module)))


@mutator
class _TransposeSinker(PyExprMutator):
    def visit_call_(self, op: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(op)
        if is_call(call, *OF_ONE, *OF_SEVERAL):
            return self._transposed(call)
        axes = _axes(call)
        if not axes:
            return call
        before = definition(self, call.args[0])
        first = _axes(before)
        is_taken_back = first and [first[axis] for axis in axes] == list(range(len(axes)))
        return before.args[0] if is_taken_back else call

    def _transposed(self, call: relax.Call) -> relax.Expr:
        made = [definition(self, operand) for operand in call.args]
        orders = {tuple(axes) for one in made if (axes := _axes(one))}
        if len(orders) != 1:
            return call
        (order,) = orders
        back = [order.index(axis) for axis in range(len(order))]
        operands = []
        for operand, one in zip(call.args, made, strict=True):
            if _axes(one):
                operands.append(one.args[0])
            elif _is_single(operand):
                operands.append(operand)
            elif _is_line(operand, len(order)):
                operands.append(self.builder_.emit(relax.op.permute_dims(operand, back)))
            else:
                return call
        computed = self.builder_.emit(relax.Call(call.op, operands, call.attrs))
        return relax.op.permute_dims(computed, list(order))


def _axes(expression: Any) -> list[int]:
    """In which order a transposition has the axes of its operand; nothing for other expressions."""
    if not is_call(expression, "permute_dims") or expression.attrs.axes is None:
        return []
    return [int(axis) for axis in expression.attrs.axes]


def _is_single(operand: Any) -> bool:
    return operand.ty.shape is not None and len(operand.ty.shape) == 0


def _is_line(operand: Any, rank: int) -> bool:
    """Whether a tensor has values along one axis at most, so that it costs nothing to transpose."""
    shape = operand.ty.shape
    if shape is None or len(shape) != rank or not all(isinstance(extent, tvm.tirx.IntImm) for extent in shape):
        return False
    extents = [int(extent) for extent in shape]
    return math.prod(extents) == max(extents)
