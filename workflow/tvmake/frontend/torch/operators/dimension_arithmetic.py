"""Arithmetic on dynamic dimensions.

Quotients and remainders by a dimension would end the process where it is 0 when a package runs. TVM has no importer for dimensions in
floating point on their way to whole numbers: ``int(height * 1.5)``, the sizes that resizing asks for.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any

import tvm
from torch import fx

from tvm import tirx  # isort: skip


def _divided(divide: Callable[[Any, Any], Any], name: str) -> Callable[[fx.Node, Any], Any]:
    def convert(node: fx.Node, importer: Any) -> Any:
        dividend, divisor = (importer.env[one] if isinstance(one, fx.Node) else one for one in node.args)
        if not isinstance(divisor, tvm.ir.Expr) or not tvm.ir.is_prim_expr(divisor):
            return importer.create_convert_map()[name](node)
        # An empty tensor has no element that would be computed with the quotient.
        return divide(dividend, tirx.max(divisor, tirx.IntImm("int64", 1)))

    return convert


def _converted(convert: Callable[..., Any]) -> Callable[[fx.Node, Any], Any]:
    return lambda node, importer: convert(*importer.retrieve_args(node))


def _fraction(value: Any) -> Any:
    """A dimension or a number as Python computes with it."""
    return tirx.Cast("float64", value) if isinstance(value, tvm.ir.Expr) else tirx.const(float(value), "float64")


def _truncate(value: Any) -> Any:
    """A fraction of a dimension, which is not negative, rounded down."""
    return tirx.Cast("int64", value)


CONVERTERS: Mapping[str, Callable[[fx.Node, Any], Any]] = {
    "floordiv": _divided(operator.floordiv, "floordiv"),
    "mod": _divided(operator.mod, "mod"),
    "sym_float": _converted(_fraction),
    "truediv": _converted(lambda left, right: _fraction(left) / _fraction(right)),
    "trunc": _converted(_truncate),
    "floor": _converted(_truncate),
}
"""By the operator's name."""
