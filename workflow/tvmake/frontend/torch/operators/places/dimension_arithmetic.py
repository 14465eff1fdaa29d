"""Quotients and remainders by a dynamic dimension, which ends the process where the dimension is 0 when a package runs."""

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


CONVERTERS: Mapping[str, Callable[[fx.Node, Any], Any]] = {
    "floordiv": _divided(operator.floordiv, "floordiv"),
    "mod": _divided(operator.mod, "mod"),
}
"""By the operator's name."""
