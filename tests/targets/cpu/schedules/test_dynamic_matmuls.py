"""Matmuls with dynamic rows, columns and sums equal NumPy's at every size."""

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import tvm

from tests.targets.cpu.schedules.dynamic_nets import Case, DynamicNetwork, error, tensor
from tests.targets.cpu.schedules.nets import BASELINE, NATIVE

op = tvm.relax.op
NEAR = 2e-6
"""Sums are added in another order."""


def linear(x: Any, weight: Any, bias: Any) -> Any:
    return op.nn.relu(op.add(op.matmul(x, weight), bias))


def linear_of_numpy(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    return np.maximum(x @ weight + bias, 0)


def gelu(x: Any, weight: Any, bias: Any) -> Any:
    return op.nn.gelu(op.add(op.matmul(x, weight), bias))


def gelu_of_torch(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> Any:
    return torch.nn.functional.gelu(torch.from_numpy(x @ weight + bias))


def scores(query: Any, key: Any) -> Any:
    return op.matmul(query, op.permute_dims(key, [0, 1, 3, 2]))


def scores_of_numpy(query: np.ndarray, key: np.ndarray) -> np.ndarray:
    return query @ key.transpose(0, 1, 3, 2)


def scaled_scores(query: Any, key: Any) -> Any:
    return op.multiply(scores(query, key), tvm.relax.const(0.125, "float32"))


CASES = {
    "rows": Case(op.matmul, np.matmul, [tensor("n", 40)], [tensor(40, 48)]),
    "rows from batch and length": Case(linear, linear_of_numpy, [tensor("b", "n", 40)], [tensor(40, 48), tensor(48)]),
    "rows from batch and length, no epilogue": Case(op.matmul, np.matmul, [tensor("b", "n", 33)], [tensor(33, 64)]),
    "rows, and a residual": Case(
        lambda x, y, w, v: op.add(linear(x, w, v), y),
        lambda x, y, w, v: linear_of_numpy(x, w, v) + y,
        [tensor("b", "n", 24), tensor("b", "n", 32)],
        [tensor(24, 32), tensor(32)],
    ),
    "rows, with an epilogue of error functions": Case(
        gelu, gelu_of_torch, [tensor("n", 24)], [tensor(24, 53), tensor(53)]
    ),
    "rows of few columns": Case(linear, linear_of_numpy, [tensor("b", "n", 40)], [tensor(40, 5), tensor(5)]),
    "rows of few columns, no epilogue": Case(op.matmul, np.matmul, [tensor("n", 40)], [tensor(40, 5)]),
    "columns": Case(scores, scores_of_numpy, [tensor("b", 2, 7, 16), tensor("b", 2, "m", 16)]),
    "columns beside rows": Case(scores, scores_of_numpy, [tensor("b", 2, "n", 16), tensor("b", 2, "m", 16)]),
    "columns, with an epilogue": Case(
        scaled_scores,
        lambda query, key: scores_of_numpy(query, key) / 8,
        [tensor("b", 2, "n", 16), tensor("b", 2, "n", 16)],
    ),
    "sum": Case(op.matmul, np.matmul, [tensor(3, 9, "n"), tensor(3, "n", 24)]),
    "sum beside rows": Case(op.matmul, np.matmul, [tensor("b", 2, "n", "m"), tensor("b", 2, "m", 20)]),
    "rows, columns and sum": Case(op.matmul, np.matmul, [tensor("b", "n", "m"), tensor("b", "m", "n")]),
}


SOME = ["rows from batch and length", "rows of few columns", "columns beside rows", "sum beside rows"]
"""Cases that are also built for the smallest vectors."""


@cache
def network(target: str) -> DynamicNetwork:
    if target == "native":
        return DynamicNetwork(CASES, NATIVE)
    return DynamicNetwork({name: CASES[name] for name in SOME}, BASELINE)


@cache
def results(target: str, b: int, n: int, m: int) -> dict[str, Any]:
    return network(target).results(b=b, n=n, m=m)


SIZES = [
    *((1, n, 1 + 3 * n % 37) for n in range(1, 34)),
    *((3, n, n + 2) for n in (1, 2, 5, 14, 17)),
    (2, 61, 197),
    (5, 1, 64),
]
"""Batch, length and the other length: less than a tile, each tile, one more, and larger."""


@pytest.mark.parametrize(
    ("target", "name"), [*(("native", name) for name in CASES), *(("smallest vectors", name) for name in SOME)]
)
def test_a_matmul_with_dynamic_dimensions_is_numpy_s_at_every_size(target: str, name: str):
    errors = {size: error(*results(target, *size)[name]) for size in SIZES}
    assert {size: far for size, far in errors.items() if far > NEAR} == {}


def test_all_of_them_have_schedules():
    assert network("native").lowered.ruled == network("native").kernels.keys()
