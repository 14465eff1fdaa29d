"""How large the expression of a kernel may grow, in which a value that is used several times is computed each time."""

from collections.abc import Callable
from typing import Any

import tvm
import tvm_ffi

LARGEST = 300
"""Nodes of an expression that others are put into: what is used several times doubles with each step."""

MOST_CHOICES = 3
"""Choices (``Select``) within one another's conditions. Repair: `nested-select-simplification`."""


def nodes(statement: Any) -> int:
    """How many expressions there are in what a statement stores."""
    stores: list[Any] = []
    found: list[Any] = []
    tvm_ffi.structural_walk(statement, (tvm.tirx.BufferStore, stores.append))
    for store in stores:
        tvm_ffi.structural_walk(store, (tvm.ir.Expr, lambda _node: found.append(1)))
    return len(found)


def nested_choices(statement: Any, of_load: Callable[[Any], int] = lambda _load: 0) -> int:
    """How deep a statement's choices are within one another's conditions.

    Args:
        of_load: the same, of the expression that a value which is read stands for.
    """
    depths: dict[Any, int] = {}

    def within(part: Any) -> int:
        found = [0]
        tvm_ffi.structural_walk(
            part,
            [
                (tvm.tirx.Select, lambda choice: found.append(depths[choice])),
                (tvm.ir.TensorLoad, lambda load: found.append(of_load(load))),
            ],
        )
        return max(found)

    def note(choice: Any) -> None:
        depths[choice] = max(1 + within(choice.condition), within(choice.true_value), within(choice.false_value))

    tvm_ffi.structural_walk(statement, (tvm.tirx.Select, note), order="post")
    return within(statement)
