"""Python arithmetic on elements of tensors."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.frontend.torch.running import Of, outputs
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.exporting.export import exported_program
from tvmake.frontend.torch.importer import read

X = torch.tensor([[0.5, -1.0, 2.0], [3.0, -0.25, 1.5]])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * (1 / x[0, 0].item() ** 2) + (-x[1, 0].item() - 1),
        lambda x: torch.full((2, 3), x.max().item()) - x.masked_fill(x > 0, x.min().item()),
        lambda x: x.clamp(-0.5, x.mean().item()) + x.clamp(max=x[0, 0].item() / 2),
        lambda x: (x > x.mean().item(), x.gt(1).sum().item() * x, x.long() + x.gt(1).sum().item()),
        lambda x: torch.sym_float(x.gt(0).sum().item()) / 3 * x,
    ],
    ids=["arithmetic", "filled", "clamped", "compared and counted", "converted"],
)
def test_arithmetic_on_numbers_of_tensors(function: Callable[[Tensor], object]):
    imported = read(exported_program("net", Of(function), (X,)), ImportOptions(source="net", trusted=True))
    other = X.flip(0) * 1.25
    wanted = function(other)
    for found, expected in zip(
        outputs(imported, other.numpy()), wanted if isinstance(wanted, tuple) else [wanted], strict=True
    ):
        assert found.dtype == expected.numpy().dtype
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5)
