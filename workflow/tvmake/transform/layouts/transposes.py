"""Move transposes behind element-wise operators, which then keep the layout of their operands.

Repair: `layout-of-choices`.
"""

import math
from typing import Any

import tvm

from tvmake.ir.expressions import is_call
from tvmake.ir.rewriting import definition, rewrite_calls

from tvm import relax  # isort: skip

OF_ONE = (
    "nn.relu", "nn.silu", "nn.gelu", "nn.gelu_tanh", "sigmoid", "tanh", "sin", "cos", "exp", "log", "sqrt", "rsqrt", "erf", "abs",
    "negative", "sign", "square", "floor", "ceil", "round", "astype",
)  # fmt: skip
"""Element-wise operators of one operand."""

OF_SEVERAL = (
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "greater", "greater_equal", "less", "less_equal", "equal",
    "not_equal", "where",
)  # fmt: skip
"""Element-wise operators of several operands, with broadcasting."""


def transpose_afterwards(module: "tvm.IRModule") -> "tvm.IRModule":
    """Move transposes behind element-wise operators, and remove pairs of inverse transposes."""
    return relax.transform.CanonicalizeBindings()(rewrite_calls(module, _sink_transpose))


def _sink_transpose(visitor: Any, op: Any, call: Any) -> Any:
    if is_call(call, *OF_ONE, *OF_SEVERAL):
        return _move_transpose(visitor, call)
    axes = _axes(call)
    if not axes:
        return call
    before = definition(visitor, call.args[0])
    first = _axes(before)
    is_inverse = first and [first[axis] for axis in axes] == list(range(len(axes)))
    return before.args[0] if is_inverse else call


def _move_transpose(visitor: Any, call: relax.Call) -> relax.Expr:
    definitions = [definition(visitor, operand) for operand in call.args]
    orders = {tuple(axes) for expression in definitions if (axes := _axes(expression))}
    if len(orders) != 1:
        return call
    (order,) = orders
    back = [order.index(axis) for axis in range(len(order))]
    operands = []
    for operand, expression in zip(call.args, definitions, strict=True):
        if _axes(expression):
            operands.append(expression.args[0])
        elif _is_single(operand):
            operands.append(operand)
        elif _is_line(operand, len(order)):
            operands.append(visitor.builder_.emit(relax.op.permute_dims(operand, back)))
        else:
            return call
    computed = visitor.builder_.emit(relax.Call(call.op, operands, call.attrs))
    return relax.op.permute_dims(computed, list(order))


def _axes(expression: Any) -> list[int]:
    """Return the axis order of a transpose; empty for other expressions."""
    if not is_call(expression, "permute_dims") or expression.attrs.axes is None:
        return []
    return [int(axis) for axis in expression.attrs.axes]


def _is_single(operand: Any) -> bool:
    return operand.ty.shape is not None and len(operand.ty.shape) == 0


def _is_line(operand: Any, rank: int) -> bool:
    """Whether at most one axis has more than one element, so that a transpose costs nothing."""
    shape = operand.ty.shape
    if shape is None or len(shape) != rank or not all(isinstance(extent, tvm.tirx.IntImm) for extent in shape):
        return False
    extents = [int(extent) for extent in shape]
    return math.prod(extents) == max(extents)
