"""Programs with branches compute the same as PyTorch, for each branch."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.frontend.compiled import run_compiled
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        def one(x: Tensor) -> tuple[Tensor, Tensor]:
            return self.first(x).relu() + ((x > 0) * (x < 1)), x.clone()

        def other(x: Tensor) -> tuple[Tensor, Tensor]:
            return torch.cond(y.sum() > 0, lambda x: self.second(x), lambda x: x - 1, (x,)), x * 2

        return torch.cond(x.sum() > 0, one, other, (x,))


@pytest.mark.parametrize("signs", [(1, 1), (-1, 1), (-1, -1)])
def test_the_branch_that_the_data_selects_is_returned(signs: tuple[int, int]):
    torch.manual_seed(0)
    network = Branching().eval()
    x, y = (sign * torch.rand(2, 3) for sign in signs)
    imported = read(torch.export.export(network, (torch.rand(2, 3), y)), ImportOptions(source="branching"))
    found = run_compiled(imported, [x.numpy(), y.numpy()])
    with torch.no_grad():
        for value, expected in zip(found, network(x, y), strict=True):
            np.testing.assert_allclose(value, expected.numpy(), rtol=1e-5, atol=1e-6)
