"""The values of small tensors of integers that a network computes from shapes, such as the index of a layer."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvmake.ir.expressions import constant, operator_name

from tvm import relax, tirx  # isort: skip

_ELEMENTWISE: Mapping[str, Callable[..., Any]] = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply}


class Sizes:
    """Values of tensors of integers.

    Args:
        definitions: the expressions that variables are bound to.
    """

    def __init__(self, definitions: Mapping[Any, Any]):
        self._definitions = definitions

    def value(self, expression: Any) -> np.ndarray | None:
        """The elements, numbers or expressions; None if they depend on data."""
        while expression in self._definitions:
            expression = self._definitions[expression]
        if (known := constant(expression)) is not None:
            return known.astype(object) if known.size <= 16 and known.dtype.kind in "iub" else None
        if isinstance(expression, relax.ShapeExpr):
            values = np.empty(len(expression.values), object)
            values[:] = [int(size) if isinstance(size, tirx.IntImm) else size for size in expression.values]
            return values
        name = operator_name(expression)
        if name == "shape_of":
            shape = getattr(expression.args[0].ty, "shape", None)
            return self.value(shape) if isinstance(shape, relax.ShapeExpr) else None
        operands = [self.value(argument) for argument in getattr(expression, "args", ()) if name in _READ]
        if not operands or any(operand is None for operand in operands):
            return None
        return _READ[name](expression, *operands)


def _take(call: Any, table: Any, chosen: Any) -> Any:
    return np.asarray(table[chosen.astype(int)], object) if table.ndim == 1 else None


def _where(call: Any, condition: Any, then: Any, otherwise: Any) -> Any:
    if not all(isinstance(element, (bool, int, np.bool_)) for element in condition.flat):
        return None
    return np.asarray(np.where(condition.astype(bool), then, otherwise), object)


_READ: Mapping[str, Callable[..., Any]] = {
    "shape_to_tensor": lambda _, shape: shape,
    "astype": lambda _, value: value,
    "squeeze": lambda call, value: value.reshape(()) if value.size == 1 and not call.ty.shape.values else None,
    "reshape": lambda call, value, _: value.reshape(()) if value.size == 1 and not call.ty.shape.values else None,
    "take": _take,
    "where": _where,
    **{name: lambda _, a, b, apply=apply: np.asarray(apply(a, b), object) for name, apply in _ELEMENTWISE.items()},
}
