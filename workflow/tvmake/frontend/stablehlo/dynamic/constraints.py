"""Turn jax' shape assertions into bounds of dimensions, and into sizes that are required to be equal."""

import re
from collections.abc import Callable, Iterable
from typing import Any

from tvmake.errors import InputError
from tvmake.frontend.equal_sizes import EqualSizes
from tvmake.frontend.stablehlo.conversion import Conversion, Value
from tvmake.frontend.stablehlo.sizes.arithmetic import is_symbolic
from tvmake.ir.size_expressions import evaluate_size

from tvm import tirx  # isort: skip

SHAPE_ASSERTION = "custom_call @shape_assertion"

LARGEST = 1 << 20
"""The largest limit that is searched."""

_PROBES = (0, 1, 2, 3, 5, 16, 97, 1000)
"""Distances from a limit at which a condition is tried."""


class Constraints:
    """The bounds of dimensions that a program asserts, by name. jax' dimensions are at least 1."""

    def __init__(self) -> None:
        self.bounds: dict[str, tuple[int, int | None]] = {}

    def add(self, dimensions: Iterable[Any]) -> None:
        """Declare the dimensions."""
        self.bounds |= {str(dimension.name): (1, None) for dimension in dimensions}

    def convert(self, conversion: Conversion, op: Any, values: list[Value]) -> list[Value]:
        """Record a shape assertion.

        Raises:
            InputError: it does not hold for any size.
        """
        condition, text = values[0], _constraint(str(op.attributes["error_message"].value))
        if not is_symbolic(condition):
            if not bool(condition):
                raise InputError(conversion.where, f"sizes do not meet {text}", "give the inputs other shapes")
            return []
        self._record(conversion, condition[()], text)
        return []

    def _record(self, conversion: Conversion, condition: Any, text: str) -> None:
        if isinstance(condition, tirx.And):
            for part in (condition.a, condition.b):
                self._record(conversion, part, text)
            return
        if isinstance(condition, tirx.EQ):
            conversion.builder.require_equal(EqualSizes(condition.a, condition.b, text))
            return
        greater = _natural(condition)
        if greater is None:
            raise InputError(
                conversion.where, f"{text} is not a comparison of sizes", "write it as `<`, `>` or `==` of sizes"
            )
        variables = tirx.analysis.undefined_vars(greater)
        names = {str(variable.name) for variable in variables}
        limits = _limits(greater, *names) if len(names) == 1 else None
        if limits is None:
            zero = tirx.IntImm("int64", 0)
            conversion.builder.require_equal(EqualSizes(tirx.min(greater, zero), zero, text))
            return
        (name,) = names
        least, most = self.bounds.get(name, (0, None))
        least = max(least, limits[0])
        most = min((limit for limit in (most, limits[1]) if limit is not None), default=None)
        if most is not None and most < least:
            raise InputError(conversion.where, f"no size of {name} meets {text}", "export the network again")
        self.bounds[name] = least, most
        conversion.sizes.bind_dimension(variables[0], least, most)


def _constraint(message: str) -> str:
    """The constraint of a message, for a sentence."""
    found = re.search(r"(?:symbolic shape constraint|Expected value) (.*?)\. ", f"{message} ")
    if found is None:
        return "the shapes that the program was exported for"
    return f"the constraint {re.sub(r'^Expected value', '', found[1]).strip()} of the export"


def _natural(condition: Any) -> Any:
    """An expression that is at least 0 if a comparison holds; None for other conditions."""
    if isinstance(condition, tirx.Not):
        inner = _natural(condition.a)
        return None if inner is None else -1 - inner
    differences: dict[Any, Callable[[Any, Any], Any]] = {
        tirx.LE: lambda a, b: b - a,
        tirx.LT: lambda a, b: b - a - 1,
        tirx.GE: lambda a, b: a - b,
        tirx.GT: lambda a, b: a - b - 1,
    }
    kind = next((kind for kind in differences if isinstance(condition, kind)), None)
    return None if kind is None else differences[kind](condition.a, condition.b)


def _limits(expression: Any, name: str) -> tuple[int, int | None] | None:
    """The smallest and the largest size with which an expression is at least 0; None if these sizes are not an interval."""

    def holds(size: int) -> bool:
        return size >= 0 and evaluate_size(expression, {name: size}) >= 0

    try:
        if holds(LARGEST):
            low, high = -1, LARGEST
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if holds(middle) else (middle, high)
            is_limit = all(holds(high + more) for more in _PROBES) and not any(holds(low - more) for more in _PROBES)
            return (high, None) if is_limit else None
        if holds(0) or holds(1):
            low, high = (0 if holds(0) else 1), LARGEST
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if holds(middle) else (low, middle)
            is_limit = not any(holds(high + more) for more in _PROBES)
            return (0, low) if is_limit and all(holds(low - more) for more in _PROBES if more < low) else None
    except (ValueError, ZeroDivisionError):
        return None
    return None
