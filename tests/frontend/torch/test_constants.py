"""Nodes that depend on parameters only are folded before TVM sees the program; others are unchanged."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.frontend.torch.running import outputs
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.constants import LARGEST, compute_constants
from tvmake.frontend.torch.importer import read

X = torch.linspace(-2, 2, 2 * 4 * 6).reshape(2, 4, 6)


class Of(nn.Module):
    """A function of an input and of weights."""

    def __init__(self, function: Callable[..., Tensor], *shapes: tuple[int, ...]):
        super().__init__()
        torch.manual_seed(0)
        self.function = function
        self.weights = nn.ParameterList([nn.Parameter(torch.randn(shape)) for shape in shapes])

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, *self.weights)


def fold(net: nn.Module) -> tuple[list[str], list[tuple[int, ...]]]:
    """The remaining operators, and the shapes of the folded constants."""
    program = torch.export.export(net, (X,)).run_decompositions()
    compute_constants(program)
    left = [str(node.target).split(".")[1] for node in program.graph.nodes if node.op == "call_function"]
    return left, [tuple(value.shape) for name, value in program.constants.items() if name.startswith("tvmake_computed")]


NETS = {
    "a resized embedding": (
        Of(lambda x, w: x + F.interpolate(w, (4, 6), mode="bicubic", antialias=True)[0, 0], (1, 1, 3, 5)),
        ["add"],
        [(4, 6)],
    ),
    "a standardised weight": (
        Of(
            lambda x, w: F.conv1d(x, F.batch_norm(w.reshape(1, 5, -1), None, None, training=True).reshape(5, 4, 3)),
            (5, 4, 3),
        ),
        ["convolution"],
        [(5, 4, 3)],
    ),
    "a mask": (
        Of(lambda x: x.masked_fill(torch.ones(6, 6, dtype=torch.bool).triu(1)[:4], -1.0)),
        ["scalar_tensor", "where"],
        [(4, 6)],
    ),
}


@pytest.mark.parametrize(("net", "left", "shapes"), NETS.values(), ids=NETS)
def test_nodes_that_depend_on_parameters_only_are_folded(
    net: nn.Module, left: list[str], shapes: list[tuple[int, ...]]
):
    assert fold(net) == (left, shapes)
    imported = read(torch.export.export(net, (X,)), ImportOptions(source="net"))
    np.testing.assert_allclose(outputs(imported, X.numpy())[0], net(X).detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "net",
    [
        Of(lambda x, w: x @ w.t(), (3, 6)),
        Of(lambda x, w: x + w.reshape(4, 6).expand(2, 4, 6), (24,)),
        Of(lambda x: x + torch.zeros(4, 6)),
    ],
    ids=["a transposed weight", "a weight in another shape", "a filled tensor"],
)
def test_views_and_filled_tensors_are_not_folded(net: nn.Module):
    assert fold(net)[1] == []


def test_large_results_are_computed_in_each_call():
    rows = LARGEST // 4 // 6 + 1
    net = Of(lambda x, w: x[:, :1, :] + (w * 2).repeat(rows, 1), (1, 6))
    assert fold(net)[1] == [(1, 6)]


def test_random_numbers_are_drawn_in_each_call():
    assert fold(Of(lambda x: x + torch.rand(4, 6)))[1] == []


def test_nodes_that_name_an_output_are_not_folded():
    net = Of(lambda x, w: (x + 1, w * 2), (3,))
    assert fold(net)[1] == []
    imported = read(torch.export.export(net, (X,)), ImportOptions(source="net"))
    np.testing.assert_allclose(outputs(imported, X.numpy())[1], net(X)[1].detach().numpy())


def test_training_on_activations_is_refused():
    net = Of(lambda x: F.batch_norm(x, torch.zeros(4), torch.ones(4), training=True))
    with pytest.raises(InputError, match=r"exported in training mode: batch_norm \(1×\)"):
        read(torch.export.export(net, (X,)), ImportOptions(source="net"))


class ConstantIndices(nn.Module):
    """Indices whose shapes depend on parameters only."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.tensor([True, False, True, True]))
        self.register_buffer("square", torch.eye(4, 6) > 0)
        self.register_buffer("times", torch.tensor([1, 2, 0, 1]))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        chosen = x[:, self.mask | (self.times > 1)]
        written = torch.zeros_like(x)
        written[:, self.mask] = x[:, self.mask] * 3
        repeated = x.repeat_interleave(self.times, 1)
        return chosen.sum(1), x[:, self.square] * 2, repeated, chosen.reshape(2, -1), written


def test_indices_that_depend_on_constants_are_computed():
    program = torch.export.export(ConstantIndices(), (torch.zeros_like(X),))
    imported = read(program, ImportOptions(source="chosen"))
    for found, expected in zip(outputs(imported, X.numpy()), ConstantIndices()(X), strict=True):
        np.testing.assert_array_equal(found, expected.numpy())


def test_elements_that_a_constant_mask_selects_are_looked_up():
    def function(x):
        return x * 2, x.masked_select(torch.tensor([[True], [False], [True]])[:, :, None])

    values = torch.rand(3, 4, 2)
    program = torch.export.export(Of(function), (values,))
    found = outputs(read(program, ImportOptions(source="net")), values.numpy())
    for output, expected in zip(found, function(values), strict=True):
        np.testing.assert_array_equal(output, expected.numpy())


def test_a_shape_that_depends_on_the_data_is_refused_beside_constant_ones():
    class Both(ConstantIndices):
        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            return x[:, self.mask], x[x > 0]

    with pytest.raises(InputError, match=r"aten.index.Tensor returns depends on the data"):
        read(torch.export.export(Both(), (X,)), ImportOptions(source="both"))
