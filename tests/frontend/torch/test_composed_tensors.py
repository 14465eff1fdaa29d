"""Weights in tensor subclasses, as torchao's quantised weights, are imported as their plain tensors."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.frontend.torch.running import outputs
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read
from tvmake.frontend.torch.program import weights_digest

aten = torch.ops.aten

X = torch.arange(3 * 64).reshape(3, 64).sin()


class Scaled(Tensor):
    """Integers with a scale for each row, for a linear layer; with ``rounds``, its input is quantised too."""

    integers: Tensor
    scale: Tensor
    rounds: bool

    @staticmethod
    def __new__(cls, integers: Tensor, scale: Tensor, rounds: bool) -> "Scaled":
        return Tensor._make_wrapper_subclass(cls, integers.shape, dtype=torch.float32)

    def __init__(self, integers: Tensor, scale: Tensor, rounds: bool):
        self.integers, self.scale, self.rounds = integers, scale, rounds

    def __tensor_flatten__(self) -> tuple[list[str], bool]:
        return ["integers", "scale"], self.rounds

    @staticmethod
    def __tensor_unflatten__(parts: dict[str, Tensor], rounds: bool, *_: Any) -> "Scaled":
        return Scaled(parts["integers"], parts["scale"], rounds)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is not nn.functional.linear:
            with torch._C.DisableTorchFunctionSubclass():
                return function(*args, **(kwargs or {}))
        x, weight, bias = args
        if not weight.rounds:
            return x @ weight.integers.t().to(torch.float32) * weight.scale + bias
        step = x.abs().amax(1, keepdim=True) / 127
        sums = aten._int_mm((x / step).round().to(torch.int8), weight.integers.t())
        return sums.to(torch.float32) * step * weight.scale + bias

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert function in (aten.detach.default, aten.alias.default), function
        return Scaled(args[0].integers, args[0].scale, args[0].rounds)


def network(rounds: bool) -> nn.Module:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 16)).eval()
    for layer in (net[0], net[2]):
        scale = layer.weight.detach().abs().amax(1) / 127
        integers = (layer.weight.detach() / scale[:, None]).round().to(torch.int8)
        layer.weight = nn.Parameter(Scaled(integers, scale, rounds), requires_grad=False)
    return net


@pytest.mark.parametrize("rounds", [False, True])
def test_a_network_with_subclasses_equals_pytorch(rounds: bool):
    net = network(rounds)
    imported = read(torch.export.export(net, (X,)), ImportOptions(source="net.pt2"))
    with torch.no_grad():
        wanted = net(X).numpy()
    np.testing.assert_allclose(outputs(imported, X.numpy())[0], wanted, rtol=1e-4, atol=1e-5)


def test_the_digest_covers_the_plain_tensors():
    first, same, other = network(False), network(False), network(False)
    with torch.no_grad():
        other[0].weight.scale[3] *= 2
    digests = [weights_digest(torch.export.export(net, (X,))) for net in (first, same, other)]
    assert digests[0] == digests[1] != digests[2]
