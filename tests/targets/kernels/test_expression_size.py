"""The size of an expression."""

from typing import Any

import pytest
import tvm

from tvmake.targets.kernels.expression_size import nested_choices, nodes

from tvm.script import tirx as T  # isort: skip


def stored(value: Any) -> Any:
    """A statement that stores a value computed from a tensor's element."""
    source, result = (tvm.tirx.decl_buffer((1,), name=name) for name in ("source", "result"))
    return tvm.tirx.BufferStore(result, value(source[0]), [0])


def test_nodes_are_those_of_what_is_stored():
    assert nodes(stored(lambda x: x + x)) > nodes(stored(lambda x: x))
    assert nodes(tvm.tirx.SeqStmt([stored(lambda x: x)] * 2)) == 2 * nodes(stored(lambda x: x))


def choice(condition: Any, value: Any, other: Any) -> Any:
    return T.Select(condition > 0, value, other)


@pytest.mark.parametrize(
    ("value", "depth"),
    [
        (lambda x: x, 0),
        (lambda x: choice(x, x, x), 1),
        (lambda x: choice(x, choice(x, x, x), choice(x, x, x)), 1),
        (lambda x: choice(choice(x, x, x), x, x), 2),
        (lambda x: choice(choice(x, choice(x, x, x), x) + 1, x, choice(x, x, x)), 2),
    ],
)
def test_choices_count_within_conditions(value: Any, depth: int):
    assert nested_choices(stored(value)) == depth


def test_a_load_counts_as_the_expression_that_it_represents():
    assert nested_choices(stored(lambda x: x), lambda _load: 2) == 2
    assert nested_choices(stored(lambda x: choice(x, 0.0, 1.0)), lambda _load: 2) == 3
    assert nested_choices(stored(lambda x: choice(tvm.tirx.const(1.0), x, x)), lambda _load: 2) == 2
