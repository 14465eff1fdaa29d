"""Functions of numbers near zero, in a network as it is built: what simplifies it must not take their digits."""

import numpy as np
import pytest
import torch

from tests.frontend.torch.running import as_built

NEAR = [0.0, 1e-30, -1e-12, 3e-8, -1e-6, 4e-5, -1e-3, 0.02, 0.3, -0.45, 0.55, -0.9, 0.99]
VALUES = torch.tensor([*NEAR, 1.0, 3.0, 50.0])


@pytest.mark.parametrize(
    ("function", "values"),
    [(torch.expm1, VALUES), (torch.log1p, VALUES), (torch.atanh, VALUES[:13]), (torch.asinh, VALUES)],
    ids=["expm1", "log1p", "atanh", "asinh"],
)
def test_no_digits_are_lost(function, values):
    np.testing.assert_allclose(as_built(function, values), function(values.double()).numpy(), rtol=1e-6)
