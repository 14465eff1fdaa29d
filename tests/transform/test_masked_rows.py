"""Attention checks for fully masked rows only if they are possible."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.transform.nets import operators, run, transformed
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read

Q, K, V = torch.randn(3, 1, 2, 8, 4, generator=torch.Generator().manual_seed(0))

ONE_ROW = torch.zeros(8, 8).index_fill(0, torch.tensor([2]), -math.inf)
DIAGONAL = torch.full((8, 8), -math.inf).fill_diagonal_(0.5)
CAPPED = 3.0


class Net(nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]):
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


def attention(scores: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    """PyTorch's attention over modified scores."""
    return lambda q, k, v: torch.ops.aten._safe_softmax(scores(q @ k.mT), -1) @ v


WITHOUT = {
    "no mask": functional.scaled_dot_product_attention,
    "causal": lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
    "constant booleans": lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, DIAGONAL > 0),
    "a constant": lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, DIAGONAL),
    "bounded, and moved": attention(lambda s: CAPPED * torch.tanh(s / CAPPED).transpose(-1, -2)),
    "chosen": attention(lambda s: torch.where(DIAGONAL > 0, s, -math.inf)),
}

WITH = {
    "a row masked out": lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, ONE_ROW),
    "a mask that is given": lambda q, k, v: functional.scaled_dot_product_attention(
        q, k, v, q[0, 0] @ k[0, 0].mT + ONE_ROW
    ),
    "infinities chosen everywhere": attention(lambda s: torch.where(ONE_ROW == 0, s, -math.inf)),
    "masked twice": attention(lambda s: s + DIAGONAL + torch.flip(DIAGONAL, [0])),
    "of numbers without bounds": attention(lambda s: torch.log(torch.relu(s - s.amin(-1, keepdim=True).amax()))),
    "rows cut in halves": lambda q, k, v: (
        torch.ops.aten._safe_softmax((q @ k.mT + DIAGONAL).reshape(2, 16, 4), -1) @ v[0, :, :4]
    ),
    "moved across rows": attention(lambda s: (s + DIAGONAL.index_fill(0, torch.tensor([0]), 0)).reshape(1, 2, 8, 8).mT),
}


CASES = [*((net, False) for net in WITHOUT.values()), *((net, True) for net in WITH.values())]


@pytest.mark.parametrize(("function", "is_asked"), CASES, ids=[*WITHOUT, *WITH])
def test_attention_is_as_in_pytorch(function: Callable[..., torch.Tensor], is_asked: bool):
    net = Net(function).eval()
    network = transformed(read(torch.export.export(net, (Q, K, V)), ImportOptions(source="net.pt2")))
    assert (operators(network[0])["equal"] > 0) == is_asked
    found = run(network, Q.numpy(), K.numpy(), V.numpy())
    np.testing.assert_allclose(found, net(Q, K, V).numpy(), rtol=0, atol=1e-6)
