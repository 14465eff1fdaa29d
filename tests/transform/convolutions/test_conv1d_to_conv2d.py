"""One-dimensional convolutions become two-dimensional ones on images of height 1, with the same values."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from tests.transform.nets import operators, run, transformed
from tvmake.frontend.imported import ImportedModel
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read
from tvmake.quantize.precision import PrecisionConfig
from tvmake.transform.convolutions.conv1d_to_conv2d import conv1d_to_conv2d

from tvm import relax  # isort: skip

SOUND = torch.arange(2 * 4 * 21).reshape(2, 4, 21).sin()


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.widen, self.narrow, self.norm = (
            nn.Conv1d(4, 6, 3, padding=2, dilation=2),
            nn.Conv1d(6, 4, 1),
            nn.BatchNorm1d(6),
        )
        self.scale = nn.Parameter(torch.linspace(0.5, 2, 4).reshape(4, 1))

    def forward(self, x):
        inner = torch.tanh(self.narrow(torch.relu(self.norm(self.widen(x)))))
        return x + inner * self.scale


class Pooled(nn.Module):
    """The operators after the convolution read a sequence."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(4, 6, 5, stride=2, groups=2)

    def forward(self, x):
        found = torch.nn.functional.gelu(self.first(x))
        return torch.cat([found.mean(2), found.max(2)[0], found.transpose(1, 2).softmax(-1).sum(1)], 1)


NETS: dict[str, Callable[[], nn.Module]] = {
    "one": lambda: nn.Conv1d(4, 6, 3),
    "depthwise": lambda: nn.Conv1d(4, 8, 3, stride=2, padding=1, groups=4),
    "a stack": lambda: nn.Sequential(Residual(), Residual(), nn.Conv1d(4, 3, 1)),
    "of several uses": Pooled,
    "up and down": lambda: nn.Sequential(nn.Conv1d(4, 6, 4, 2, 1), nn.LeakyReLU(), nn.ConvTranspose1d(6, 4, 4, 2, 1)),
}


def imported(net: nn.Module, dynamic: dict[int, torch.export.Dim] | None = None) -> ImportedModel:
    shapes = (dynamic,) if dynamic else None
    return read(torch.export.export(net.eval(), (SOUND,), dynamic_shapes=shapes), ImportOptions(source="net.pt2"))


@pytest.mark.parametrize("name", NETS)
def test_networks_of_sequences_compute_what_torch_does(name: str):
    torch.manual_seed(0)
    net = NETS[name]()
    made = transformed(imported(net))
    assert operators(made[0])["nn.conv1d"] == 0
    np.testing.assert_allclose(run(made, SOUND.numpy()), net(SOUND).detach().numpy(), rtol=0, atol=1e-5)


def test_a_stack_has_no_reshapes_inside():
    found = operators(transformed(imported(NETS["a stack"]()))[0])
    assert found["nn.conv2d"] == 5
    assert (found["expand_dims"], found["squeeze"]) == (1, 1)


def test_dynamic_lengths_stay_dynamic():
    torch.manual_seed(0)
    net = NETS["a stack"]()
    made = transformed(imported(net, {2: torch.export.Dim("time", min=8, max=64)}))
    assert operators(made[0])["nn.conv1d"] == 0
    for length in (9, 33):
        sound = torch.arange(2 * 4 * length).reshape(2, 4, length).cos()
        np.testing.assert_allclose(run(made, sound.numpy()), net(sound).detach().numpy(), rtol=0, atol=1e-5)


def test_a_precision_that_names_the_operator_keeps_it():
    precision = PrecisionConfig(base="float16", never=["nn.conv1d"])
    assert operators(transformed(imported(NETS["one"]()), precision)[0])["nn.conv1d"] == 1


def test_blocks_do_not_share_images():
    def convolution(x: relax.Expr) -> relax.Expr:
        weights = relax.const(np.ones((4, 4, 3), "float32"))
        return relax.op.nn.relu(relax.op.nn.conv1d(x, weights, padding=1))

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([1, 4, 9], "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            first = builder.emit_output(builder.emit(convolution(x)))
        with builder.dataflow():
            second = builder.emit_output(builder.emit(convolution(first)))
            third = builder.emit_output(builder.emit(convolution(x)))
        builder.emit_func_output(relax.Tuple([second, third]))
    module = conv1d_to_conv2d(builder.get())
    relax.analysis.well_formed(module)  # raises where it is not
    assert operators(module)["nn.conv2d"] == 3
