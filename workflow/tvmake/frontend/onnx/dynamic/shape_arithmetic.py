"""Compute integer operators on values that include dynamic dimensions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from onnx import TensorProto, helper

from tvmake.frontend.onnx.dynamic.shape_values import (
    LARGEST_DIMENSION,
    ShapeValues,
    Values,
    as_array,
    as_expression,
    is_symbolic,
)

from tvm import relax, tirx  # isort: skip


def element_type(operator: str, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> str:
    if operator == "Cast":
        return str(helper.tensor_dtype_to_np_dtype(attributes["to"]).name)
    value = inputs[1 if operator == "Where" else 0]
    kind = getattr(value, "ty", None)
    return str(kind.dtype.dtype) if isinstance(kind, relax.TensorType) else "int64"


OperandValues = Sequence[Values | None]
Evaluate = Callable[[ShapeValues, Any, Mapping[str, Any]], Values | None]


def _elementwise(compute: Callable[[ShapeValues, Any, Any], Any]) -> Evaluate:
    """Apply a function of two values to arrays element by element; None if it returns None for a pair."""

    def evaluate(extents: ShapeValues, operands: Any, attributes: Mapping[str, Any]) -> Values | None:
        result = operands[0]
        for operand in operands[1:]:
            first, second = np.broadcast_arrays(result, operand)
            values = [compute(extents, *pair) for pair in zip(first.reshape(-1), second.reshape(-1), strict=True)]
            if any(value is None for value in values):
                return None
            result = as_array(values).reshape(first.shape)
        return result

    return evaluate


def _divide(extents: ShapeValues, first: Any, second: Any) -> Any:
    """Round towards zero; non-negative values use the floor division that shapes use."""
    if extents.bounds(second) == (0, 0):
        return None
    if not isinstance(first, tvm.ir.Expr) and not isinstance(second, tvm.ir.Expr):
        return int(first / second) if abs(first) < LARGEST_DIMENSION else None
    is_positive = extents.bounds(first)[0] >= 0 and extents.bounds(second)[0] >= 0
    return (tirx.floordiv if is_positive else tirx.truncdiv)(as_expression(first), as_expression(second))


def _remainder(extents: ShapeValues, first: Any, second: Any) -> Any:
    return None if extents.bounds(second) == (0, 0) else tirx.floormod(as_expression(first), as_expression(second))


def _compare(decide: Callable[[int, int], bool | None]) -> Evaluate:
    return _elementwise(lambda extents, first, second: decide(*extents.difference(first, second)))


def _equal(low: int, high: int) -> bool | None:
    return True if low == high == 0 else False if low > 0 or high < 0 else None


def _less(low: int, high: int) -> bool | None:
    return True if high < 0 else False if low >= 0 else None


def _greater(low: int, high: int) -> bool | None:
    return True if low > 0 else False if high <= 0 else None


def _gather(extents: ShapeValues, operands: Any, attributes: Mapping[str, Any]) -> Values | None:
    data, indices = operands
    if is_symbolic(indices):
        return None
    return np.asarray(np.take(data, indices.astype(np.int64), axis=attributes.get("axis", 0)), object)


def slice_values(extents: ShapeValues, operands: Any, attributes: Mapping[str, Any]) -> Values | None:
    if any(part is not None and is_symbolic(part) for part in operands[1:]):
        return None
    data, starts, ends, *more = operands
    axes = more[0].tolist() if more and more[0] is not None else list(range(len(starts)))
    steps = more[1].tolist() if len(more) > 1 and more[1] is not None else [1] * len(axes)
    where = [slice(None)] * data.ndim
    for axis, start, end, step in zip(axes, starts.tolist(), ends.tolist(), steps, strict=True):
        where[axis] = slice(start, None if step < 0 and end < -len(data) else end, step)
    return data[tuple(where)]


def _concat(extents: ShapeValues, operands: Any, attributes: Mapping[str, Any]) -> Values | None:
    return np.concatenate(operands, axis=attributes["axis"])


def _squeeze(extents: ShapeValues, operands: Any, attributes: Mapping[str, Any]) -> Values | None:
    return operands[0].reshape(()) if operands[0].size == 1 and operands[0].ndim == 1 else None


def _unsqueeze(extents: ShapeValues, operands: Any, attributes: Mapping[str, Any]) -> Values | None:
    axes = operands[1].tolist() if len(operands) > 1 else list(attributes["axes"])
    return np.expand_dims(operands[0], tuple(axes))


def reshape_values(extents: ShapeValues, operands: Any, attributes: Mapping[str, Any]) -> Values | None:
    if is_symbolic(operands[1]) or 0 in operands[1].tolist():
        return None
    return operands[0].reshape(operands[1].tolist())


def _cast(extents: ShapeValues, operands: Any, attributes: Mapping[str, Any]) -> Values | None:
    return operands[0] if attributes["to"] in (TensorProto.INT64, TensorProto.INT32) else None


def _where(extents: ShapeValues, operands: Any, attributes: Mapping[str, Any]) -> Values | None:
    condition, first, second = np.broadcast_arrays(*operands)
    if is_symbolic(condition):
        return None
    return np.where(condition.astype(bool), first, second)


def _reduction(compute: Callable[[Any], Any]) -> Evaluate:
    """A reduction of a list."""

    def evaluate(extents: ShapeValues, operands: Any, attributes: Mapping[str, Any]) -> Values | None:
        axes = (
            operands[1].tolist() if len(operands) > 1 and operands[1] is not None else list(attributes.get("axes", [0]))
        )
        if operands[0].ndim != 1 or axes not in ([0], [-1]):
            return None
        return as_array(compute(operands[0])).reshape([1] if attributes.get("keepdims", 1) else [])

    return evaluate


def _clip(extents: ShapeValues, operands: Any, attributes: Mapping[str, Any]) -> Values | None:
    data, *limits = operands
    for limit, choose in zip(limits, (ShapeValues.greatest, ShapeValues.least), strict=False):
        if limit is not None:
            bound = limit.reshape(-1)[0]
            data = as_array([choose(extents, value, bound) for value in data.reshape(-1)]).reshape(data.shape)
    return data


COMPARISONS: Mapping[str, Evaluate] = {
    "Equal": _compare(_equal),
    "Less": _compare(_less),
    "Greater": _compare(_greater),
    "LessOrEqual": _compare(lambda low, high: None if (more := _greater(low, high)) is None else not more),
    "GreaterOrEqual": _compare(lambda low, high: None if (less := _less(low, high)) is None else not less),
}

EVALUATED: Mapping[str, Evaluate] = {
    "Add": _elementwise(lambda extents, first, second: first + second),
    "Sub": _elementwise(lambda extents, first, second: first - second),
    "Mul": _elementwise(lambda extents, first, second: first * second),
    "Div": _elementwise(_divide),
    "Mod": _elementwise(_remainder),
    "Min": _elementwise(ShapeValues.least),
    "Max": _elementwise(ShapeValues.greatest),
    "Neg": lambda extents, operands, attributes: -operands[0],
    "Identity": lambda extents, operands, attributes: operands[0],
    "Gather": _gather,
    "Concat": _concat,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Cast": _cast,
    "Where": _where,
    "ReduceProd": _reduction(np.prod),
    "ReduceSum": _reduction(np.sum),
    "Clip": _clip,
    **COMPARISONS,
}
"""Functions that compute integer operators on known values, by the operator's name."""
