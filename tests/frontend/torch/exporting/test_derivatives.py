"""Modules that differentiate in forward are exported with derivatives as ordinary operators."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.frontend.torch.running import outputs
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.exporting.export import exported_program
from tvmake.frontend.torch.importer import read


def check(module: nn.Module, x: Tensor) -> None:
    torch.manual_seed(0)
    module.eval()
    imported = read(exported_program("net", module, (x,)), ImportOptions(source="net", trusted=True))
    results = module(x.clone())
    results = results if isinstance(results, tuple) else (results,)
    for output, expected in zip(outputs(imported, x.numpy()), results, strict=True):
        np.testing.assert_allclose(output, expected.detach().numpy(), rtol=1e-4, atol=1e-5)


class Energy(nn.Module):
    """An energy of points, and the forces on them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 8), nn.Linear(8, 1)

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            points = points.detach().requires_grad_()
            energy = self.last(torch.tanh(self.first(points))).sum()
            (slope,) = torch.autograd.grad(energy, points, create_graph=True)
        return energy.detach(), -slope.detach()


def test_forces_are_gradients_of_an_energy():
    check(Energy(), torch.randn(5, 3))


class Equation(nn.Module):
    """The residual of a learned solution of an equation with first and second derivatives."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, points: Tensor) -> Tensor:
        def solution(point: Tensor) -> Tensor:
            return self.layers(point).squeeze()

        first = torch.vmap(torch.func.grad(solution))(points)
        second = torch.vmap(torch.func.hessian(solution))(points)
        return first[:, 1] - second[:, 0, 0]


def test_second_derivatives_of_torch_func_are_exported():
    check(Equation(), torch.randn(4, 2))


class InputGradient(nn.Module):
    """The gradient of layers by an image."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return torch.func.grad(lambda x: self.layers(x).square().sigmoid().sum())(x)


@pytest.mark.parametrize(
    "layers",
    [
        lambda: [nn.MaxPool2d(2)],
        lambda: [nn.GroupNorm(1, 3), nn.Flatten(1, 2), nn.LayerNorm(8), nn.GRU(8, 4, batch_first=True), First()],
    ],
    ids=["maxima", "norms"],
)
def test_gradients_of_layers(layers: Callable[[], list[nn.Module]]):
    check(InputGradient(*layers()), torch.randn(1, 3, 3, 8))


class First(nn.Module):
    def forward(self, results: tuple[Tensor, Tensor]) -> Tensor:
        return results[0]


class ParameterGradient(nn.Module):
    """A gradient by a parameter in each call."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        rows = x[0, :, :, :4].flatten(0, 1)
        return torch.func.grad(lambda matrix: torch.linalg.solve(matrix.T @ matrix + torch.eye(4), rows.T).sum())(
            self.matrix
        )


def test_gradients_by_weights():
    check(ParameterGradient(), torch.randn(1, 2, 8, 8))


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        slope = torch.func.grad(lambda x: (x**3).sum())(x)
        return slope if bool(slope.sum() > 0) else -slope


def test_a_branch_on_values_is_refused():
    with pytest.raises(InputError, match="net"):
        exported_program("net", Branching(), (torch.randn(3),))


def test_inputs_and_weights_keep_their_names():
    program = exported_program("net", Energy(), (torch.randn(5, 3),))
    assert program.graph_signature.user_inputs == ("points",)
    assert set(program.state_dict) == {"first.weight", "first.bias", "last.weight", "last.bias"}
