"""Replace tensors of a single value by a scalar, if an operator broadcasts it.

Attention, for example, has zeros of the shape of its scores for fully masked rows; as constants they would be far larger
than the network's weights.

Infinities and NaN in masks are broadcast to the shape of a tensor. Repair: `filling-with-infinity`.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm

from tvmake.ir.expressions import constant, is_call, operator_name
from tvmake.ir.rewriting import definition, rewrite_calls

from tvm import relax  # isort: skip

SPREADING = (
    "where", "add", "subtract", "multiply", "divide", "floor_divide", "mod", "floor_mod", "power", "maximum", "minimum",
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_xor",
)  # fmt: skip
"""Operators with broadcasting operands."""

VALUES: dict[str, Callable[[Any], Any]] = {
    "full": lambda call: _scalar(call.args[1]),
    "full_like": lambda call: _scalar(call.args[1]),
    "zeros": lambda _: 0,
    "zeros_like": lambda _: 0,
    "ones": lambda _: 1,
    "ones_like": lambda _: 1,
    "broadcast_to": lambda call: _scalar(call.args[0]) if _shape(call.args[0]) == () else None,
}
"""Operators that create tensors of a single value, with functions that return the value; None if it is unknown."""

FILLING = ("full", "full_like")

JOINING = "concat"
"""An operator without broadcasting, such as the one that joins a recurrent network's initial state with its input."""

LEAST = 1024
"""Elements of the smallest constant that is computed instead of stored."""


def spread_single_values(module: "tvm.IRModule") -> "tvm.IRModule":
    """Replace operands of a single value by scalars if the result keeps its shape."""
    return relax.transform.DeadCodeElimination()(rewrite_calls(module, _spread_single_value))


def fill_single_values(module: "tvm.IRModule") -> "tvm.IRModule":
    """Compute constants of a single value in the kernels that broadcast or join them, instead of storing them.

    Run this after the last constant folding, which would store them.
    """
    return rewrite_calls(module, _fill_single_value)


def _fill_single_value(visitor: Any, op: Any, call: Any) -> Any:
    if operator_name(call) in SPREADING:
        operands = [_fill(visitor, operand) for operand in call.args]
    elif is_call(call, JOINING):
        parts = definition(visitor, call.args[0])
        if not isinstance(parts, relax.Tuple):
            return call
        operands = [relax.Tuple([_fill(visitor, part) for part in parts.fields])]
    else:
        return call
    return relax.Call(call.op, operands, call.attrs, call.ty_args, call.span)


def _fill(visitor: Any, operand: Any) -> Any:
    values = constant(operand)
    if values is None or values.size < LEAST or (values != values.flat[0]).any() or not np.isfinite(values.flat[0]):
        return operand
    return visitor.builder_.emit(relax.op.full(values.shape, relax.const(values.flat[0], str(operand.ty.dtype))))


def _spread_single_value(visitor: Any, op: Any, call: Any) -> Any:
    name = operator_name(call)
    if name in FILLING:
        return _broadcast_fill(call)
    if name not in SPREADING:
        return call
    operands = list(call.args)
    shapes = [shape for shape in map(_shape, operands) if shape is not None]
    result = _shape(call)
    if result is None or len(shapes) < len(operands):
        return call
    for index, operand in enumerate(operands):
        value = _single_value(visitor, operand)
        rest = shapes[:index] + shapes[index + 1 :]
        if value is None or not shapes[index] or np.broadcast_shapes(*rest) != result:
            continue
        operands[index] = relax.const(value, str(operand.ty.dtype))
        shapes[index] = ()
    return relax.Call(call.op, operands, call.attrs, call.ty_args, call.span) if operands != list(call.args) else call


def _single_value(visitor: Any, operand: Any) -> Any:
    """Return the value of a tensor of a single value; None for others."""
    call = definition(visitor, operand)
    evaluate = VALUES.get(operator_name(call))
    return None if evaluate is None else evaluate(call)


def _broadcast_fill(call: Any) -> Any:
    """Replace a fill with infinity or NaN by a broadcast of the value."""
    value = _scalar(call.args[1])
    if not isinstance(value, float) or math.isfinite(value):
        return call
    shape = call.args[0] if is_call(call, "full") else call.args[0].ty.shape
    return relax.op.broadcast_to(relax.const(value, str(call.ty.dtype)), shape)


def _scalar(argument: Any) -> Any:
    if isinstance(argument, tvm.ir.GenericConst):
        return argument.value.numpy().item()
    return argument.value if isinstance(argument, tvm.tirx.FloatImm | tvm.tirx.IntImm) else None


def _shape(value: Any) -> tuple[int, ...] | None:
    extents: Sequence[Any] | None = getattr(value.ty, "shape", None)
    if extents is None or not all(isinstance(extent, tvm.tirx.IntImm) for extent in extents):
        return None
    return tuple(int(extent) for extent in extents)
