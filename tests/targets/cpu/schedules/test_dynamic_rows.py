"""Norms, softmax, reductions and element-wise kernels with dynamic dimensions are right at every size."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import tvm

from tests.targets.cpu.schedules.dynamic_nets import Case, DynamicNetwork, error, tensor

op = tvm.relax.op
functional = torch.nn.functional
NEAR = 4e-6
"""Sums are added in another order."""


def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    return op.nn.layer_norm(x, scale, shift, axes=[-1])


def layer_norm_of_torch(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> Any:
    data, scale, shift = (torch.from_numpy(value).double() for value in (x, scale, shift))
    return functional.layer_norm(data, scale.shape, scale, shift, 1e-5)


def group_norm(x: Any, scale: Any, shift: Any) -> Any:
    return op.nn.group_norm(x, scale, shift, 4, 1, [2, 3])


def group_norm_of_torch(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> Any:
    data, scale, shift = (torch.from_numpy(value).double() for value in (x, scale, shift))
    return functional.group_norm(data, 4, scale, shift, 1e-5)


def norm(*shape: int | str) -> Case:
    return Case(layer_norm, layer_norm_of_torch, [tensor(*shape)], [tensor(shape[-1]), tensor(shape[-1])])


def softmax(*shape: int | str, axis: int = -1) -> Case:
    return Case(
        lambda x: op.nn.softmax(x, axis),
        lambda x: functional.softmax(torch.from_numpy(x).double(), axis),
        [tensor(*shape)],
    )


def reduction(name: str, axes: list[int], *shape: int | str) -> Case:
    reduce, of_numpy = getattr(op, name), getattr(np, name)
    return Case(lambda x: reduce(x, axes), lambda x: of_numpy(x, tuple(axes)), [tensor(*shape)])


def masked(x: Any, y: Any) -> Any:
    return op.nn.softmax(op.add(x, op.multiply(op.subtract(y, tvm.relax.const(1.0)), tvm.relax.const(1e4))), -1)


def masked_of_numpy(x: np.ndarray, y: np.ndarray) -> Any:
    return functional.softmax(torch.from_numpy(x + (y - 1) * np.float32(1e4)).double(), -1)


CASES = {
    "layer norm of dynamic rows": norm("n", 40),
    "layer norm of a dynamic batch and length": norm("b", "n", 33),
    "layer norm of rows shorter than a vector": norm("b", "n", 3),
    "layer norm over an axis that is not the last": Case(
        lambda x, scale, shift: op.nn.layer_norm(x, scale, shift, axes=[0]),
        lambda x, scale, shift: layer_norm_of_torch(x.T, scale, shift).T,
        [tensor(40, "n")],
        [tensor(40), tensor(40)],
    ),
    "group norm of dynamic images": Case(
        group_norm, group_norm_of_torch, [tensor("b", 16, "n", 5)], [tensor(16), tensor(16)]
    ),
    "softmax of dynamic rows": softmax("b", 2, "n", 29),
    "softmax over a dynamic last axis": softmax("b", 3, "n"),
    "softmax of dynamic rows over a dynamic last axis": softmax("b", 2, "m", "n"),
    "softmax over another dynamic axis": softmax(2, "n", 17, axis=1),
    "softmax of masked scores": Case(masked, masked_of_numpy, [tensor("b", 2, "m", "n"), tensor("b", 1, 1, "n")]),
    "log softmax over a dynamic last axis": Case(
        lambda x: op.nn.log_softmax(x, -1),
        lambda x: functional.log_softmax(torch.from_numpy(x).double(), -1),
        [tensor("b", "n")],
    ),
    "sum over the last axis": reduction("sum", [1], "b", "n"),
    "sum over an axis that is not the last": reduction("sum", [1], "b", "n", 24),
    "sum over the first of two dynamic axes": reduction("sum", [0], "m", "n"),
    "sum over all axes": Case(lambda x: op.sum(op.abs(x)), lambda x: np.abs(x).sum(), [tensor("b", "n")]),
    "mean over two dynamic axes": reduction("mean", [1, 2], 3, "n", "m"),
    "mean of channels": reduction("mean", [1], "b", 20, "n"),
    "maximum over the last axis": reduction("max", [2], "b", 3, "n"),
    "maximum over an axis that is not the last": reduction("max", [1], "b", "n", 7),
    "minimum over the first of two dynamic axes": reduction("min", [0], "m", "n"),
    "position of the maximum": Case(lambda x: op.argmax(x, 1), lambda x: x.argmax(1), [tensor("b", "n")]),
    "product of all": reduction("prod", [0, 1], 1, "n"),
}


def elementwise(expression: Callable[..., Any], expected: Callable[..., Any], *shapes: Any) -> Case:
    return Case(expression, expected, list(shapes))


def swap(*order: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    return lambda x: op.permute_dims(op.abs(x), list(order)), lambda x: np.abs(x).transpose(order)


CASES |= {
    "activation of a dynamic last axis": elementwise(
        op.nn.relu, lambda x: np.maximum(x, 0), tensor("b", 3, "n")
    ),
    "activation of a dynamic batch": elementwise(op.exp, np.exp, tensor("n", 5, 7)),
    "sum of two tensors": elementwise(op.add, np.add, tensor("b", "n", 33), tensor("b", 1, 33)),
    "sum with a row": elementwise(op.add, np.add, tensor("b", "m", "n"), tensor("n")),
    "transpose of two dynamic axes": elementwise(*swap(1, 0), tensor("m", "n")),
    "transpose to a dynamic last axis": elementwise(*swap(0, 2, 1), tensor("b", "n", 20)),
    "transpose from a dynamic last axis": elementwise(*swap(0, 2, 3, 1), tensor("b", 24, 3, "n")),
    "transpose of heads": elementwise(*swap(0, 2, 1, 3), tensor("b", "n", 3, 16)),
    "concatenation along a dynamic axis": elementwise(
        lambda x, y: op.concat([x, y], 1), lambda x, y: np.concatenate([x, y], 1), tensor("b", "n", 9), tensor("b", "m", 9)
    ),
    "concatenation along a dynamic last axis": elementwise(
        lambda x, y: op.concat([op.nn.relu(x), y], -1),
        lambda x, y: np.concatenate([np.maximum(x, 0), y], -1),
        tensor(3, "n"),
        tensor(3, "m"),
    ),
    "concatenation beside a dynamic axis": elementwise(
        lambda x, y: op.concat([x, y], 1), lambda x, y: np.concatenate([x, y], 1), tensor("b", 4, "n"), tensor("b", 3, "n")
    ),
    "cast of a dynamic last axis": elementwise(
        lambda x: op.astype(x, "int32"), lambda x: x.astype("int32"), tensor("b", "n")
    ),
}  # fmt: skip


@cache
def network() -> DynamicNetwork:
    return DynamicNetwork(CASES)


@cache
def results(b: int, n: int, m: int) -> dict[str, Any]:
    return network().results(b=b, n=n, m=m)


SIZES = [
    *((1 + n % 3, n, 1 + 7 * n % 19) for n in range(1, 36)),
    *((b, 64, 16) for b in (1, 4)),
    (2, 197, 31),
    (7, 1000, 3),
]
"""The length is shorter than a vector, equal, one more, odd, and larger."""


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_with_dynamic_dimensions_is_right_at_every_size(name: str):
    errors = {size: error(*results(*size)[name]) for size in SIZES}
    assert {size: far for size, far in errors.items() if far > NEAR} == {}


def test_all_of_them_have_schedules():
    assert network().lowered.ruled == network().kernels.keys()


def test_every_one_of_many_rows_has_its_own_mean():
    """TVM stores the mean over the sum that it is computed from; a value computed twice would be divided twice."""
    found, expected = results(1, 1000, 3)["layer norm of dynamic rows"]
    assert np.abs(found - expected).max(-1).max() <= 1e-5
    found, expected = results(1, 1000, 3)["layer norm over an axis that is not the last"]
    assert np.abs(found - expected).max() <= 1e-5
    found, expected = results(5, 203, 3)["layer norm of a dynamic batch and length"]
    assert np.abs(found - expected).max(-1).max() <= 1e-5
