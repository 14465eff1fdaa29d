"""Grouped matmuls by an operator that transformers defines."""

import importlib

import numpy as np
import pytest
import torch
from torch import nn

from tests.frontend.torch.running import outputs
from tests.requirements import need_module
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read

EXPERTS = torch.arange(3 * 4 * 5).reshape(3, 4, 5).sin()


@pytest.fixture(scope="module", autouse=True)
def operator():
    """The operator, which transformers registers when its mixtures of experts are imported."""
    need_module("transformers", "pip install 'tvmake[transformers]'")
    importlib.import_module("transformers.integrations.moe")


@pytest.mark.parametrize(("rows", "ends"), [(6, [1, 1, 6]), (6, [2, 4, 5]), (2, [0, 1, 2]), (2, [1, 1, 1])])
def test_each_row_is_multiplied_by_its_groups_matrix(rows, ends):
    class Experts(nn.Module):
        def forward(self, x, ends):
            return torch.ops.transformers.grouped_mm_fallback(x, EXPERTS, ends)

    inputs = torch.arange(rows * 4.0).reshape(rows, 4).cos(), torch.tensor(ends)
    imported = read(torch.export.export(Experts(), inputs), ImportOptions(source="net"))
    found = outputs(imported, *(value.numpy() for value in inputs))[0]
    np.testing.assert_allclose(found, Experts()(*inputs).numpy(), rtol=1e-5, atol=1e-6)
