"""Arithmetic on dynamic dimensions.

A division by a dimension that is 0 would crash the process that runs a package. TVM's importer lacks floating-point
arithmetic on dimensions, as in ``int(height * 1.5)`` for a resize.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any

import tvm
from torch import fx

from tvm import tirx  # isort: skip


def _divide_by_dimension(divide: Callable[[Any, Any], Any], name: str) -> Callable[[fx.Node, Any], Any]:
    def convert(node: fx.Node, importer: Any) -> Any:
        dividend, divisor = (importer.env[value] if isinstance(value, fx.Node) else value for value in node.args)
        if not isinstance(divisor, tvm.ir.Expr) or not tvm.ir.is_prim_expr(divisor):
            return importer.create_convert_map()[name](node)
        # With a dimension of 0, tensors are empty, so no element depends on the quotient.
        return divide(dividend, tirx.max(divisor, tirx.IntImm("int64", 1)))

    return convert


def _convert_arguments(convert: Callable[..., Any]) -> Callable[[fx.Node, Any], Any]:
    return lambda node, importer: convert(*importer.retrieve_args(node))


def _to_float64(value: Any) -> Any:
    """A dimension or a number as float64."""
    return tirx.Cast("float64", value) if isinstance(value, tvm.ir.Expr) else tirx.const(float(value), "float64")


def _truncate(value: Any) -> Any:
    """Round down a nonnegative fraction of a dimension."""
    return tirx.Cast("int64", value)


CONVERTERS: Mapping[str, Callable[[fx.Node, Any], Any]] = {
    "floordiv": _divide_by_dimension(operator.floordiv, "floordiv"),
    "mod": _divide_by_dimension(operator.mod, "mod"),
    "sym_float": _convert_arguments(_to_float64),
    "truediv": _convert_arguments(lambda left, right: _to_float64(left) / _to_float64(right)),
    "trunc": _convert_arguments(_truncate),
    "floor": _convert_arguments(_truncate),
}
"""Converters by the operator's name."""
