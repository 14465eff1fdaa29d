"""Sorting on OpenCL."""

from typing import Any

import numpy as np
import pytest
import tvm

from tests.requirements import need
from tests.targets.adreno_texture.nets import BUFFER, TEXTURE, executable, lowered, op, tensor
from tvmake.native.backend import opencl_library

X = tensor(3, 10, 7)

VALUES = np.random.default_rng(0).permutation(3 * 10 * 7).reshape(X[0]).astype("float32") // 2
"""Each value twice: of equal values, the earlier comes first."""


def ordered(axis: int, is_descending: bool) -> np.ndarray:
    """Indices in sorted order."""
    return np.argsort(-VALUES if is_descending else VALUES, axis, kind="stable")


def results(expression: Any, tag: str) -> list[np.ndarray]:
    """The results of a network."""
    need("PoCL")
    opencl_library()
    device = tvm.device("opencl", 0)
    machine = tvm.relax.VirtualMachine(executable(lowered(expression, X, name=tag), tag), device)
    result = machine["main"](tvm.runtime.tensor(VALUES, device))
    return [output.numpy() for output in ([result] if hasattr(result, "numpy") else result)]


@pytest.mark.parametrize(
    ("axis", "is_descending", "tag"),
    [
        (0, True, BUFFER),
        pytest.param(1, False, BUFFER, marks=pytest.mark.soak),
        pytest.param(1, True, BUFFER, marks=pytest.mark.soak),
        (-1, False, BUFFER),
        (1, True, TEXTURE),
    ],
)
def test_values_and_indices_are_in_order(axis: int, is_descending: bool, tag: str):
    indices = ordered(axis, is_descending)
    values = np.take_along_axis(VALUES, indices, axis)

    def network(x: Any) -> Any:
        largest = op.topk(x, 2, axis, "both", is_descending, "int64")
        ordered = [op.sort(x, axis, is_descending), op.argsort(x, axis, is_descending, "int64")]
        return tvm.relax.Tuple([*ordered, tvm.relax.TupleGetItem(largest, 0), tvm.relax.TupleGetItem(largest, 1)])

    sorted_values, sorted_indices, first_values, first_indices = results(network, tag)
    first = [slice(None)] * 3
    first[axis] = slice(2)
    assert np.array_equal(sorted_values, values)
    assert np.array_equal(sorted_indices, indices)
    assert np.array_equal(first_values, values[tuple(first)])
    assert np.array_equal(first_indices, indices[tuple(first)])


def test_a_row_with_nan_reads_nothing_outside_of_it():
    before = VALUES.copy()
    VALUES[0, 3] = np.nan
    try:
        (indices,) = results(lambda x: op.argsort(x, 1, True, "int64"), BUFFER)
    finally:
        VALUES[:] = before
    assert indices.min() >= 0
    assert indices.max() < X[0][1]


def test_a_row_longer_than_a_work_group_takes_is_sorted_in_parts():
    need("PoCL")
    row = np.random.default_rng(0).permutation(20_000).astype("float32")[None]
    opencl_library()
    device = tvm.device("opencl", 0)
    kernels = lowered(lambda x: op.sort(x, 1), tensor(*row.shape), name=BUFFER)
    machine = tvm.relax.VirtualMachine(executable(kernels, BUFFER), device)
    result = machine["main"](tvm.runtime.tensor(row, device))
    assert np.array_equal(result.numpy(), np.arange(20_000, dtype="float32")[None])
