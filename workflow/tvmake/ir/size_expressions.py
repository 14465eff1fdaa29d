"""Sizes that follow from dynamic dimensions, as TVM's expressions: their values, their divisors, their text."""

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
    """What a size is for given dimensions.

    Args:
        dims: by the dimensions' names.

    Raises:
        KeyError: a dimension has no value.
        ValueError: it is made in a way that shapes are not.
        ZeroDivisionError: it is divided by a size of zero.
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
    """Whether a minimum or maximum is in a size, so that it may grow in another way from some size of a dimension on."""
    parts = (getattr(size, name, None) for name in ("a", "b", "value"))
    return isinstance(size, tirx.Min | tirx.Max) or any(
        has_choice(part) for part in parts if part is not None and not isinstance(part, int)
    )


def divisors(size: Any) -> Iterator[int]:
    """The numbers by which parts of a size are divided, with or without a remainder."""
    if isinstance(size, tirx.FloorDiv | tirx.FloorMod) and isinstance(size.b, tirx.IntImm):
        yield int(size.b)
    for part in (getattr(size, "a", None), getattr(size, "b", None), getattr(size, "value", None)):
        if part is not None and not isinstance(part, int):
            yield from divisors(part)


def with_sizes(size: Any, dims: Mapping[str, Any]) -> Any:
    """A size with others for some of its dimensions, by their names; simplified."""

    def replaced(dimension: Any) -> Any:
        return dims.get(str(dimension.name), dimension)

    names = {str(dimension.name) for dimension in tirx.analysis.undefined_vars(size)}
    if not names & dims.keys():
        return size
    return tvm.sym.Analyzer().simplify(tvm_ffi.structural_map(size, (tirx.Var, replaced)))


def size_text(size: Any) -> str:
    """A size as people write it: ``height // 8 * 2``."""
    if isinstance(size, tirx.Var):
        return str(size.name)
    return re.sub(r"T\.int64\((-?\d+)\)", r"\1", str(size)).replace("T.", "")
