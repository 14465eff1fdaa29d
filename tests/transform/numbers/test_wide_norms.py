"""Norms of float64 are those of PyTorch."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from tests.frontend.compiled import run_compiled
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read
from tvmake.transform.graph import transform
from tvmake.transform.options import TransformRequest


@pytest.mark.parametrize(
    "norm", [nn.LayerNorm([6, 5]), nn.LayerNorm(5), nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True)], ids=str
)
def test_norms_of_float64_are_computed(norm: nn.Module):
    norm = norm.double().eval()
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(2, 4, 6, 5, dtype=torch.float64)
    imported = read(torch.export.export(norm, (x,)), ImportOptions(source="norm"))
    module, params = transform(imported.module, imported.params, TransformRequest())
    (found,) = run_compiled(replace(imported, module=module, params=params), [x.numpy()])
    with torch.no_grad():
        np.testing.assert_allclose(found, norm(x).numpy(), rtol=1e-12, atol=1e-12)
