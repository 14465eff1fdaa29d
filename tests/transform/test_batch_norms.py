"""Batch norms without a convolution become one multiplication and one addition, with PyTorch's values."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import tvm
import tvm_ffi
from torch import nn

from tests.frontend.compiled import run_compiled
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read
from tvmake.ir.expressions import operator_name
from tvmake.transform.graph import transform
from tvmake.transform.options import TransformOptions, TransformRequest


def operators(module: "tvm.IRModule") -> list[str]:
    """A network's operators, in order."""
    found: list[str] = []
    tvm_ffi.structural_walk(module["main"].body, (tvm.ir.Call, lambda call: found.append(operator_name(call))))
    return found


def first_norm(norm: nn.Module) -> nn.Module:
    """A batch norm with statistics and random weights."""
    torch.manual_seed(0)
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    for name, buffer in norm.named_buffers():
        if name.startswith("running"):
            nn.init.uniform_(buffer, 0.5, 2)
    return norm.eval()


NORMS = {
    "rows": (nn.BatchNorm1d(5), (3, 5)),
    "sequences": (nn.BatchNorm1d(5), (2, 5, 7)),
    "images": (nn.BatchNorm2d(5), (2, 5, 4, 3)),
    "volumes": (nn.BatchNorm3d(5), (1, 5, 2, 3, 4)),
    "without weights": (nn.BatchNorm2d(5, affine=False), (2, 5, 4, 3)),
}


@pytest.mark.parametrize("folds", [True, False])
@pytest.mark.parametrize("name", NORMS)
def test_batch_norms_are_computed(name: str, folds: bool):
    norm, shape = NORMS[name]
    network = nn.Sequential(first_norm(norm), nn.ReLU())
    x = torch.randn(shape)
    imported = read(torch.export.export(network.eval(), (x,)), ImportOptions(source="norm"))
    request = TransformRequest(transform=TransformOptions(fold_batch_norm=folds))
    module, params = transform(imported.module, imported.params, request)
    if folds:
        assert operators(module) == ["multiply", "add", "nn.relu"]
    (found,) = run_compiled(replace(imported, module=module, params=params), [x.numpy()])
    with torch.no_grad():
        np.testing.assert_allclose(found, network(x).numpy(), rtol=1e-5, atol=1e-6)


def conv(kind: str, transposed: bool = False, **options: Any) -> nn.Module:
    """A convolution and its batch norm."""
    layer = getattr(nn, f"Conv{'Transpose' if transposed else ''}{kind}")(4, 6, 3, **options)
    return nn.Sequential(layer, first_norm(getattr(nn, f"BatchNorm{kind}")(6)))


class Twice(nn.Module):
    """A convolution whose result has another use before its batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Conv2d(4, 6, 3), first_norm(nn.BatchNorm2d(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        return self.norm(y) + y


FOLDED = {
    "images": (conv("2d"), (1, 4, 8, 8), ["add", "nn.conv2d"]),
    "images, no bias": (conv("2d", bias=False), (1, 4, 8, 8), ["add", "nn.conv2d"]),
    "images, grouped": (conv("2d", groups=2), (1, 4, 8, 8), ["add", "nn.conv2d"]),
    "volumes": (conv("3d"), (1, 4, 5, 6, 7), ["add", "nn.conv3d"]),
    "rows": (nn.Sequential(nn.Linear(4, 6), first_norm(nn.BatchNorm1d(6))), (3, 4), ["add", "matmul"]),
    "images, transposed": (conv("2d", True), (1, 4, 8, 8), None),
    "images, transposed and grouped": (conv("2d", True, groups=2), (1, 4, 8, 8), None),
    "sequences": (conv("1d"), (2, 4, 9), None),
    "used twice": (Twice(), (1, 4, 8, 8), ["add", "add", "add", "multiply", "nn.conv2d"]),
}


@pytest.mark.parametrize("name", FOLDED)
def test_batch_norms_are_folded_into_weights(name: str):
    network, shape, expected = FOLDED[name]
    x = torch.randn(shape)
    imported = read(torch.export.export(network.eval(), (x,)), ImportOptions(source="norm"))
    module, params = transform(imported.module, imported.params, TransformRequest())
    if expected is not None:
        assert sorted(operators(module)) == expected
    (found,) = run_compiled(replace(imported, module=module, params=params), [x.numpy()])
    with torch.no_grad():
        np.testing.assert_allclose(found, network(x).numpy(), rtol=1e-4, atol=1e-5)
