"""A module may read values that depend on no input, and no others."""

import math
from itertools import pairwise

import pytest
import torch
from torch import nn

from tvmake.errors import InputError
from tvmake.frontend.torch.exporting.export import exported_program

X = torch.arange(6.0).reshape(2, 3) + 1


class Flag(nn.Module):
    def __init__(self, is_ready: bool) -> None:
        super().__init__()
        self.register_buffer("is_ready", torch.tensor([is_ready]))
        self.register_buffer("steps", torch.tensor(3))

    def forward(self, x):
        if not self.is_ready:
            return x
        for _ in range(int(self.steps)):
            x = x * 2
        return x


class Times(nn.Module):
    def forward(self, x):
        times = torch.linspace(0, 1, 5)
        times[-1] = 2
        for before, after in pairwise(times):
            if after - before > 0.5:
                x = x + float(after)
        return x.sum(torch.arange(1, x.ndim).tolist())


class Learned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, x):
        return x.clamp(max=self.scale.item()) * math.exp(self.scale)


@pytest.mark.parametrize(
    "module", [Flag(True), Flag(False), Times(), Learned()], ids=["ready", "not ready", "times", "learned"]
)
def test_values_of_constants_buffers_and_parameters_are_known(module):
    assert torch.equal(exported_program("net", module, (X,)).module()(X), module(X))


class Written(nn.Module):
    def __init__(self, write) -> None:
        super().__init__()
        self.write = write

    def forward(self, x):
        values = torch.zeros(3)
        self.write(values, values[:2], x)
        return x if values[0] > 0 else -x


@pytest.mark.parametrize(
    "write",
    [
        lambda values, part, x: part.copy_(x[0, :2]),
        lambda values, part, x: part.__setitem__(0, x[0, 0]),
        lambda values, part, x: part.__iadd__(x[0, 0]),
        lambda values, part, x: torch.add(x[0], 1, out=values),
        lambda values, part, x: setattr(values, "data", x[0]),
        lambda values, part, x: part.normal_(),
    ],
    ids=["copied", "assigned", "added", "out", "data", "drawn"],
)
def test_a_tensor_is_unknown_after_a_write_of_inputs(write):
    with pytest.raises(InputError, match="branches on the values"):
        exported_program("net", Written(write), (X,))
