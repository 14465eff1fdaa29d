"""Operators with operands of two types, against PyTorch."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.frontend.torch.running import Cases, Of, outputs
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read

FLOATS, INTEGERS = torch.tensor([-2.5, -0.5, 0.5, 3.0]), torch.tensor([-3, 2, 1, 5], dtype=torch.int32)
LONGS, TRUTHS = torch.tensor([4, -1, 2, 7]), torch.tensor([True, False, True, False])


BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "floor_divide": torch.floor_divide,
    "remainder": torch.remainder, "maximum": torch.maximum, "less": torch.lt, "equal": torch.eq,
}  # fmt: skip
PAIRS = {"float, int": (FLOATS, INTEGERS), "int, long": (INTEGERS, LONGS), "long, float": (LONGS, FLOATS)}


OF_PAIRS = {types: Cases(BINARY, *pair) for types, pair in PAIRS.items()}


@pytest.mark.parametrize("types", PAIRS)
@pytest.mark.parametrize("name", BINARY)
def test_two_types_of_tensor(name: str, types: str):
    check(OF_PAIRS[types], name)


NORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "layer": lambda x: torch.nn.functional.layer_norm(x, (6,), torch.ones(6), torch.ones(6)),
    "group": lambda x: torch.nn.functional.group_norm(x, 2, torch.ones(4)),
    "batch": lambda x: torch.nn.functional.batch_norm(x, torch.ones(4), torch.ones(4), torch.ones(4)),
}


@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_norms_whose_weights_have_more_bits_than_their_data(norm: Callable[[Tensor], Tensor]):
    net, x = Of(lambda a, b: norm(a.bfloat16()).float() + b), torch.linspace(-3, 2, 48).reshape(2, 4, 6)
    imported = read(torch.export.export(net, (x, x)), ImportOptions(source="net"))
    (found,) = outputs(imported, x.numpy(), x.numpy())
    np.testing.assert_allclose(found, net(x, x).numpy(), rtol=0, atol=0.05)  # of bfloat16's 8 bits


SCALARS: dict[str, Callable[..., Tensor]] = {
    "int + 1.5": lambda a, b: a + 1.5 + b,
    "int * 0.5": lambda a, b: a * 0.5 + b,
    "2.5 - int": lambda a, b: 2.5 - a + b,
    "int / 2": lambda a, b: a / 2 + b,
    "int > 1.5": lambda a, b: (a > 1.5) & (b > 0),
    "where": lambda a, b: torch.where(a > 0, a, 0.5) + b,
    "sqrt of int": lambda a, b: torch.sqrt(a.abs()) + b,
    "truth + int": lambda a, b: (a > 0) + b,
    "truth * 2.0": lambda a, b: (a > 0) * 2.0 + b,
    "mean of truths": lambda a, b: (a > 0).float().mean() + b,
}


OF_SCALARS = Cases(SCALARS, INTEGERS, LONGS)


@pytest.mark.parametrize("name", SCALARS)
def test_a_tensor_and_a_number_of_another_type(name: str):
    check(OF_SCALARS, name)


def check(cases: Cases, name: str) -> None:
    """Compare values and dtype with PyTorch."""
    (got,), (expected,) = cases.outputs(name), cases.expected(name)
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=1e-6)
