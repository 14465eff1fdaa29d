"""TVM expressions of dynamic dimensions: their values, divisors and text."""

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tvm
import tvm_ffi

from tvm import tirx  # isort: skip

ARITHMETIC: tuple[tuple[Any, Callable[[int, int], int]], ...] = (
    (tirx.Add, operator.add),
    (tirx.Sub, operator.sub),
    (tirx.Mul, operator.mul),
    (tirx.FloorDiv, operator.floordiv),
    (tirx.FloorMod, operator.mod),
    (tirx.Min, min),
    (tirx.Max, max),
)


def evaluate_size(size: Any, dims: Mapping[str, int]) -> int:
    """Evaluate a size.

    Args:
        dims: sizes of the dimensions, by name.

    Raises:
        KeyError: a dimension has no value.
        ValueError: the expression has an operator that shapes do not have.
        ZeroDivisionError: a divisor is zero.
    """
    if isinstance(size, int | tirx.IntImm):
        return int(size)
    for kind, compute in ARITHMETIC:
        if isinstance(size, kind):
            return compute(evaluate_size(size.a, dims), evaluate_size(size.b, dims))
    if isinstance(size, tirx.Cast):
        return evaluate_size(size.value, dims)
    if isinstance(size, tirx.Var):
        return dims[str(size.name)]
    raise ValueError(str(size))


def has_choice(size: Any) -> bool:
    """Whether a size contains a minimum or maximum, so that it is piecewise linear in its dimensions."""
    parts = (getattr(size, name, None) for name in ("a", "b", "value"))
    return isinstance(size, tirx.Min | tirx.Max) or any(
        has_choice(part) for part in parts if part is not None and not isinstance(part, int)
    )


def divisors(size: Any) -> Iterator[int]:
    """Yield the constant divisors in a size, of quotients and remainders."""
    if isinstance(size, tirx.FloorDiv | tirx.FloorMod) and isinstance(size.b, tirx.IntImm):
        yield int(size.b)
    for part in (getattr(size, "a", None), getattr(size, "b", None), getattr(size, "value", None)):
        if part is not None and not isinstance(part, int):
            yield from divisors(part)


def with_sizes(size: Any, dims: Mapping[str, Any]) -> Any:
    """Substitute dimensions of a size, by name, and simplify it."""

    def substitute(dimension: Any) -> Any:
        return dims.get(str(dimension.name), dimension)

    names = {str(dimension.name) for dimension in tirx.analysis.undefined_vars(size)}
    if not names & dims.keys():
        return size
    return tvm.sym.Analyzer().simplify(tvm_ffi.structural_map(size, (tirx.Var, substitute)))


def size_text(size: Any) -> str:
    """Format a size for messages: ``height // 8 * 2``."""
    if isinstance(size, tirx.Var):
        return str(size.name)
    return re.sub(r"T\.int64\((-?\d+)\)", r"\1", str(size)).replace("T.", "")
