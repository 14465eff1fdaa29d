"""Positions of nonzero elements and writes at positions, against PyTorch."""

import pytest
import torch

from tests.frontend.torch.running import assert_equals_pytorch

VALUES = torch.tensor([[0.5, -1.5, 0.0], [2.0, 0.0, -0.25], [1.0, 3.0, -3.0], [0.75, 0.0, 9.0]])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (torch.nonzero_static(x, size=10), torch.nonzero_static(x > 0, size=3, fill_value=7)),
        lambda x: x.clone().put_(torch.tensor([1, -3]), torch.tensor([9.0, 10.0]), accumulate=True),
    ],
    ids=["nonzero", "put"],
)
def test_it_equals_pytorch(function):
    assert_equals_pytorch(function, VALUES)
