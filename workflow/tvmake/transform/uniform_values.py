"""Tensors of one value become that value, wherever an operator spreads it by itself.

Attention, for one, comes with zeros of the size of its scores, to be taken where a whole row is masked: as constants they are far
larger than the network's weights.

Infinities and NaN, as masks have them, are spread over the shape of a tensor. Repair: `filling-with-infinity`.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm

from tvmake.ir.expressions import constant, is_call, operator_name
from tvmake.ir.rewriting import definition, rewritten

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

SPREADING = (
    "where", "add", "subtract", "multiply", "divide", "floor_divide", "mod", "floor_mod", "power", "maximum", "minimum",
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_xor",
)  # fmt: skip
"""Operators whose operands take each other's shapes."""

VALUES: dict[str, Callable[[Any], Any]] = {
    "full": lambda call: _scalar(call.args[1]),
    "full_like": lambda call: _scalar(call.args[1]),
    "zeros": lambda _: 0,
    "zeros_like": lambda _: 0,
    "ones": lambda _: 1,
    "ones_like": lambda _: 1,
    "broadcast_to": lambda call: _scalar(call.args[0]) if _shape(call.args[0]) == () else None,
}
"""What makes tensors of one value, and which it is; None where that is not known."""

FILLING = ("full", "full_like")

JOINING = "concat"
"""Takes tensors of the shape that they have; as what a recurrent network starts with is joined with its input."""

LEAST = 1024
"""Elements of the smallest constant that is made when it is needed, instead of stored."""


def spread_single_values(module: "tvm.IRModule") -> "tvm.IRModule":
    """The same network, with single values for operands that hold only one, where the result keeps its shape."""
    return relax.transform.DeadCodeElimination()(rewritten(module, _UniformValueSpreader(module)))


def fill_single_values(module: "tvm.IRModule") -> "tvm.IRModule":
    """The same network, with constants that hold one value made by the kernels that spread or join them, not stored.

    Folding would store them again: after the last of it.
    """
    return rewritten(module, _UniformValueFiller(module))


@mutator
class _UniformValueFiller(PyExprMutator):
    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        if operator_name(call) in SPREADING:
            operands = [self._filled(operand) for operand in call.args]
        elif is_call(call, JOINING):
            parts = definition(self, call.args[0])
            if not isinstance(parts, relax.Tuple):
                return call
            operands = [relax.Tuple([self._filled(part) for part in parts.fields])]
        else:
            return call
        return relax.Call(call.op, operands, call.attrs, call.ty_args, call.span)

    def _filled(self, operand: Any) -> Any:
        values = constant(operand)
        if values is None or values.size < LEAST or (values != values.flat[0]).any() or not np.isfinite(values.flat[0]):
            return operand
        return self.builder_.emit(relax.op.full(values.shape, relax.const(values.flat[0], str(operand.ty.dtype))))


@mutator
class _UniformValueSpreader(PyExprMutator):
    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        name = operator_name(call)
        if name in FILLING:
            return _filled(call)
        if name not in SPREADING:
            return call
        operands = list(call.args)
        shapes = [shape for shape in map(_shape, operands) if shape is not None]
        result = _shape(call)
        if result is None or len(shapes) < len(operands):
            return call
        for place, operand in enumerate(operands):
            value = self._single_value(operand)
            others = [shape for other, shape in enumerate(shapes) if other != place]
            if value is None or not shapes[place] or np.broadcast_shapes(*others) != result:
                continue
            operands[place] = relax.const(value, str(operand.ty.dtype))
            shapes[place] = ()
        return (
            relax.Call(call.op, operands, call.attrs, call.ty_args, call.span) if operands != list(call.args) else call
        )

    def _single_value(self, operand: Any) -> Any:
        """The value of a tensor that is made of one; None for others."""
        made = definition(self, operand)
        evaluate = VALUES.get(operator_name(made))
        return None if evaluate is None else evaluate(made)


def _filled(call: Any) -> Any:
    """A tensor filled with a value that TVM fills none with, from its value spread over it."""
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
