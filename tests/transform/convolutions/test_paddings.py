"""Zero padding before a convolution is fused into it; other paddings stay unchanged."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.transform.nets import operators, run, transformed
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read

SHAPES = {1: (1, 4, 11), 2: (1, 4, 9, 10), 3: (1, 4, 5, 6, 7)}
CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


class Padded(nn.Module):
    def __init__(self, rank: int, widths: tuple[int, ...], value: float = 0, mode: str = "constant"):
        super().__init__()
        self.convolution = CONVOLUTIONS[rank](4, 6, 3, stride=2, padding=1)
        self.widths, self.value, self.mode = widths, value, mode

    def forward(self, x):
        return self.convolution(F.pad(x, self.widths, self.mode, self.value if self.mode == "constant" else None))


def agrees(net: nn.Module, rank: int) -> bool:
    """Whether the padding is fused; the values must match torch in both cases."""
    torch.manual_seed(0)
    x = torch.randn(SHAPES[rank])
    made = transformed(read(torch.export.export(net.eval(), (x,)), ImportOptions(source="net.pt2")))
    np.testing.assert_allclose(run(made, x.numpy()), net(x).detach().numpy(), rtol=0, atol=1e-5)
    return operators(made[0])["nn.pad"] == 0


@pytest.mark.parametrize(("rank", "widths"), [(1, (2, 0)), (2, (0, 1, 2, 3)), (3, (1, 0, 2, 0, 0, 3))])
def test_zeros_in_any_direction_go_into_the_convolution(rank: int, widths: tuple[int, ...]):
    assert agrees(Padded(rank, widths), rank)


@pytest.mark.parametrize(
    "net",
    [
        Padded(2, (0, 1, 0, 1), value=1.0),
        Padded(2, (-1, 1, 0, 0)),
        Padded(2, (1, 1, 1, 1), mode="reflect"),
    ],
    ids=["ones", "cut off", "reflected"],
)
def test_other_paddings_stay_and_are_correct(net: Padded):
    agrees(net, 2)


def test_a_padding_of_several_convolutions_is_fused_into_each():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Conv2d(4, 6, 3), nn.Conv2d(4, 6, 3)

        def forward(self, x):
            padded = F.pad(x, (1, 2, 0, 1))
            return self.first(padded) * self.second(padded) + padded.mean()

    assert not agrees(Two(), 2)  # the mean reads the zeros, too
