"""Measure a kernel's expression, in which values with several uses are recomputed at each use."""

from collections.abc import Callable
from typing import Any

import tvm
import tvm_ffi

LARGEST = 300
"""Maximum nodes of an expression after inlining: values with several uses double it with each step."""

MOST_CHOICES = 3
"""Maximum nesting of ``Select`` in conditions of others. Repair: `nested-select-simplification`."""


def nodes(statement: Any) -> int:
    """Number of expression nodes in a statement's stores."""
    stores: list[Any] = []
    counted: list[Any] = []
    tvm_ffi.structural_walk(statement, (tvm.tirx.BufferStore, stores.append))
    for store in stores:
        tvm_ffi.structural_walk(store, (tvm.ir.Expr, lambda _node: counted.append(1)))
    return len(counted)


def nested_choices(statement: Any, of_load: Callable[[Any], int] = lambda _load: 0) -> int:
    """Depth of a statement's choices within one another's conditions.

    Args:
        of_load: the depth of the expression that a load represents.
    """
    depths: dict[Any, int] = {}

    def within(part: Any) -> int:
        counted = [0]
        tvm_ffi.structural_walk(
            part,
            [
                (tvm.tirx.Select, lambda choice: counted.append(depths[choice])),
                (tvm.ir.TensorLoad, lambda load: counted.append(of_load(load))),
            ],
        )
        return max(counted)

    def note(choice: Any) -> None:
        depths[choice] = max(1 + within(choice.condition), within(choice.true_value), within(choice.false_value))

    tvm_ffi.structural_walk(statement, (tvm.tirx.Select, note), order="post")
    return within(statement)
