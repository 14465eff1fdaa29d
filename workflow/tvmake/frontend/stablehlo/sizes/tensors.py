"""Tensors with the values of sizes that follow from dynamic dimensions and counters."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tvm

from tvmake.frontend.stablehlo.sizes.arithmetic import expression, plain

from tvm import relax, tirx  # isort: skip

_OPERATORS: tuple[tuple[Any, Callable[..., Any]], ...] = (
    (tirx.Add, relax.op.add),
    (tirx.Sub, relax.op.subtract),
    (tirx.Mul, relax.op.multiply),
    (tirx.FloorDiv, relax.op.floor_divide),
    (tirx.FloorMod, relax.op.floor_mod),
    (tirx.Min, relax.op.minimum),
    (tirx.Max, relax.op.maximum),
    (tirx.LE, relax.op.less_equal),
    (tirx.LT, relax.op.less),
    (tirx.GE, relax.op.greater_equal),
    (tirx.GT, relax.op.greater),
    (tirx.EQ, relax.op.equal),
    (tirx.NE, relax.op.not_equal),
    (tirx.And, relax.op.logical_and),
    (tirx.Or, relax.op.logical_or),
)


def size_tensor(builder: Any, values: np.ndarray, counters: Mapping[Any, Any]) -> Any:
    """A tensor with the elements of an array of sizes, in its declared dtype.

    Args:
        builder: Relax's block builder.
        values: the array.
        counters: int64 scalars with the values of counters of iterations.
    """
    dtype, shape = values.declared, values.shape  # type: ignore[attr-defined]
    elements = [plain(value) for value in values.reshape(-1)]
    if dtype != "bool" and not any(_reads(element, counters) for element in elements):
        result = builder.emit(relax.op.shape_to_tensor(relax.ShapeExpr(list(map(expression, elements)))))
        if shape != (len(elements),):
            result = builder.emit(relax.op.reshape(result, shape))
    else:
        scalars = [_scalar(builder, element, counters) for element in elements]
        if len(scalars) == 1:
            result = scalars[0] if not shape else builder.emit(relax.op.reshape(scalars[0], shape))
        else:
            rows = [builder.emit(relax.op.reshape(scalar, (1,))) for scalar in scalars]
            result = builder.emit(relax.op.reshape(builder.emit(relax.op.concat(rows, 0)), shape))
    return result if str(result.ty.dtype) == dtype else builder.emit(relax.op.astype(result, dtype))


def _reads(value: Any, counters: Mapping[Any, Any]) -> bool:
    return isinstance(value, tvm.ir.Expr) and any(
        variable in counters for variable in tirx.analysis.undefined_vars(value)
    )


def _scalar(builder: Any, value: Any, counters: Mapping[Any, Any]) -> Any:
    """A scalar with the value of an expression: int64, or a boolean for a comparison."""
    value = plain(value)
    if isinstance(value, int):
        return relax.const(value, "int64")
    if isinstance(value, tirx.Var) and value in counters:
        return counters[value]
    if isinstance(value, tirx.Not):
        return builder.emit(relax.op.logical_not(_scalar(builder, value.a, counters)))
    function = next((function for kind, function in _OPERATORS if isinstance(value, kind)), None)
    if function is None or (not _reads(value, counters) and str(value.ty.dtype) != "bool"):
        vector = builder.emit(relax.op.shape_to_tensor(relax.ShapeExpr([value])))
        return builder.emit(relax.op.reshape(vector, ()))
    return builder.emit(function(*(_scalar(builder, part, counters) for part in (value.a, value.b))))
