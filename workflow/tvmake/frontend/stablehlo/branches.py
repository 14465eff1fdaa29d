"""Convert branches: all are computed, and one result is chosen."""

from functools import partial
from typing import Any

import numpy as np

from tvmake.frontend.stablehlo.conversion import Conversion, Structure, Value

from tvm import relax  # isort: skip


def _choice(conversion: Conversion, op: Any, values: list[Value]) -> list[Value]:
    """The results of the branch that a value selects: the first for true, the last for indices out of range."""
    scope, choice = conversion.scope, values[0]
    branches = [region.blocks[0] for region in op.regions]
    if isinstance(choice, np.ndarray):
        number = int(not choice) if choice.dtype == bool else int(choice)
        return conversion.block(branches[number if 0 <= number < len(branches) else -1], [], scope)
    outer, results = conversion.taken, []
    for number, branch in enumerate(branches):
        conversion.taken = partial(_taken, conversion, choice, number, len(branches), outer)
        results.append(conversion.block(branch, [], scope))
    conversion.taken = outer
    *alternatives, result = results
    for number, alternative in reversed(list(enumerate(alternatives))):
        condition = _is_chosen(conversion, choice, number)
        result = [conversion.select(condition, *pair) for pair in zip(alternative, result, strict=True)]
    return result


def _is_chosen(conversion: Conversion, choice: Any, number: int) -> Any:
    """A boolean that is true if a value selects a branch other than the last."""
    dtype = str(choice.ty.dtype)
    return choice if dtype == "bool" else conversion.emit(relax.op.equal(choice, relax.const(number, dtype)))


def _taken(conversion: Conversion, choice: Any, number: int, count: int, outer: Any) -> Any:
    """A boolean that is true if a branch is taken: its number is the value, or for the last branch, no other number is."""
    others = [_is_chosen(conversion, choice, other) for other in ([number] if number < count - 1 else range(count - 1))]
    parts = others if number < count - 1 else [conversion.emit(relax.op.logical_not(other)) for other in others]
    parts += [] if outer is None else [outer()]
    taken = parts[0]
    for part in parts[1:]:
        taken = conversion.emit(relax.op.logical_and(taken, part))
    return taken


STRUCTURES: dict[str, Structure] = {"stablehlo.case": _choice, "stablehlo.if": _choice}
