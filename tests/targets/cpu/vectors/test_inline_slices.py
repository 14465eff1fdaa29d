"""Parts of a split are read from the original tensor by element-wise operators, and copied for others."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm

from tests.targets.cpu.schedules.nets import lowered, result, values
from tests.transform.nets import calls
from tests.tune.graphs import graph
from tvmake.targets.cpu.vectors.inline_slices import inline_slices

from tvm import relax  # isort: skip

op = relax.op
INPUTS = (((2, 5), "float32"), ((5, 12), "float32"))


def split(value: Any, at: int | list[int]) -> list[Any]:
    """The parts of a tensor along its last axis."""
    emit = relax.BlockBuilder.current().emit
    parts = emit(op.split(emit(value), at, -1))
    return [emit(relax.TupleGetItem(parts, index)) for index in range(len(parts.ty.fields))]


def gates(x: Any, w: Any) -> Any:
    """A step of a recurrent layer."""
    first, second, third = split(op.matmul(x, w), [3, 8])
    return op.multiply(
        op.sum(op.sigmoid(second), [-1], True), op.multiply(op.tanh(first), op.sum(op.exp(third), [-1], True))
    )


def uneven(x: Any, w: Any) -> Any:
    first, second = split(op.matmul(x, w), [4])
    return op.concat([op.sigmoid(second), op.tanh(first)], 1)


@pytest.mark.parametrize("net", [gates, uneven])
def test_parts_for_element_wise_operators_are_slices(net: Callable[..., Any]):
    made = inline_slices(graph(net, *INPUTS))
    assert not calls(made, "split")
    assert calls(made, "strided_slice")


def test_a_split_into_one_part_is_the_tensor():
    x, w = values(*INPUTS)
    made = lowered(lambda x, w: op.tanh(op.split(op.matmul(x, w), [], -1)), *INPUTS)
    np.testing.assert_allclose(result(made, [x, w]), np.tanh(x @ w), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("net", [gates, uneven])
def test_the_result_is_the_same(net: Callable[..., Any]):
    x, w = values(*INPUTS)
    parts = x @ w
    if net is gates:
        first, second, third = np.split(parts, [3, 8], -1)
        sums = (1 / (1 + np.exp(-second))).sum(-1, keepdims=True), np.exp(third).sum(-1, keepdims=True)
        expected = sums[0] * np.tanh(first) * sums[1]
    else:
        first, second = np.split(parts, [4], 1)
        expected = np.concatenate([1 / (1 + np.exp(-second)), np.tanh(first)], 1)
    np.testing.assert_allclose(result(lowered(net, *INPUTS), [x, w]), expected, rtol=1e-4, atol=1e-5)


def for_products(x: Any, w: Any) -> Any:
    first, second = split(op.matmul(x, w), 2)
    return op.matmul(first, op.permute_dims(second, [1, 0]))


def for_the_user(x: Any, w: Any) -> Any:
    parts = split(op.matmul(x, w), 2)
    return relax.Tuple([parts[0], op.tanh(parts[1])])


@pytest.mark.parametrize("net", [for_products, for_the_user])
def test_other_splits_stay(net: Callable[..., Any]):
    assert len(calls(inline_slices(graph(net, *INPUTS)), "split")) == 1


@pytest.mark.parametrize("along", [False, True])
def test_parts_of_fixed_length_are_read_in_place_beside_a_dynamic_dimension_and_dynamic_parts_stay(along):
    rows = tvm.tirx.Var("rows", "int64")
    shape = (8, 2 * rows) if along else (rows, 8)

    def net(x: Any) -> Any:
        first, second = split(x, 2)
        return op.add(first, second)

    assert bool(calls(inline_slices(graph(net, (shape, "float32"))), "split")) == along
