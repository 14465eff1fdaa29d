"""Functions keep their digits near zero in a built network, after TVM's simplifications."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from tests.frontend.torch.running import as_built

NEAR = [0.0, 1e-30, -1e-12, 3e-8, -1e-6, 4e-5, -1e-3, 0.02, 0.3, -0.45, 0.55, -0.9, 0.99]
VALUES = torch.tensor([*NEAR, 1.0, 3.0, 50.0])
FAR = torch.tensor([-3.0, -0.5, 0.0, 0.25, 1.0, 3.9, 4.5, 5.5, 6.5, 8.0, 9.0])
HUGE = torch.tensor([3.0, -4e5, 1e9, 7.0, -0.3, 0.125, 1e30, -3e37, 0.0, math.inf, 1e-30])
MISSING = torch.tensor([1.0, math.nan, math.nan, 3.0, -2.0, math.nan])


@pytest.mark.parametrize(
    ("function", "values"),
    [
        (torch.expm1, VALUES),
        (torch.log1p, VALUES),
        (torch.atanh, VALUES[:13]),
        (torch.asinh, VALUES),
        (functional.elu, -VALUES),
        (functional.selu, -VALUES),
        (torch.erfc, FAR),
        (lambda x: torch.hypot(x, x.flip(0)), HUGE),
        (lambda x: torch.remainder(x, x.flip(0)), HUGE[:6]),
        (lambda x: torch.fmax(x, x.flip(0)), MISSING),
    ],
    ids=[
        "expm1", "log1p", "atanh", "asinh", "elu", "selu", "erfc", "hypot", "remainder", "fmax",
    ],
)  # fmt: skip
def test_functions_keep_their_digits(function, values):
    np.testing.assert_allclose(as_built(function, values), function(values.double()).numpy(), rtol=1e-6)


@pytest.mark.parametrize("divisor", [0.1, -0.3, 2.0, torch.tensor([0.1, 0.0, -3.0, 1e-3, 7.0])], ids=str)
def test_float_floor_division_agrees_with_python(divisor: float | torch.Tensor):
    values = torch.tensor([1.0, 0.5, -2.0, 0.3, -0.0])
    np.testing.assert_array_equal(as_built(lambda x: x // divisor, values), (values // divisor).numpy())


def test_crossed_clip_bounds_give_the_upper_bound():
    np.testing.assert_array_equal(as_built(lambda x: x.clamp(2.0, -1.0), FAR), torch.full_like(FAR, -1.0))
