"""Negative axes in another layout."""

from collections.abc import Callable

import numpy as np
import pytest
import tvm

from tests.transform.layouts.test_norms import F32, computed, converted, graph
from tvmake.transform.axes import count_axes_from_front

from tvm import relax  # isort: skip

op = relax.op

ENDS: dict[str, Callable[[relax.Expr], relax.Expr]] = {
    "squeeze": lambda x: op.squeeze(x, [-4]),
    "permutation": lambda x: op.permute_dims(x, [0, -1, 1, 2]),
    "stack": lambda x: op.stack([x, x], -1),
}


def network(end: Callable[[relax.Expr], relax.Expr]) -> "tvm.IRModule":
    return graph(lambda x, weights: end(op.nn.conv2d(x, weights)), ((1, 3, 8, 8), F32), ((4, 3, 3, 3), F32))


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_network_is_the_same_in_another_layout(end: Callable[[relax.Expr], relax.Expr]):
    module = network(end)
    found = computed(converted(count_axes_from_front(module)))
    np.testing.assert_allclose(found, computed(module), atol=1e-4)


@pytest.mark.parametrize(
    "end", [lambda x: op.squeeze(x, [0]), lambda x: op.stack([x, x], 1), lambda x: op.squeeze(op.sum(x))]
)
def test_other_axes_stay(end: Callable[[relax.Expr], relax.Expr]):
    assert count_axes_from_front(network(end)).script() == network(end).script()
