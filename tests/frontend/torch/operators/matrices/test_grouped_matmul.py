"""Grouped matmuls by an operator that a library defines."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.frontend.torch.running import outputs
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read

EXPERTS = torch.arange(3 * 4 * 5).reshape(3, 4, 5).sin()


@pytest.fixture(scope="module")
def multiply():
    """The operator as transformers defines it, which is not installed."""

    def grouped_matmul(input: Tensor, weight: Tensor, offs: Tensor) -> Tensor:
        found, begin = torch.zeros(input.shape[0], weight.shape[2]), 0
        for matrix, end in zip(weight, offs.tolist(), strict=True):
            found[begin:end] = input[begin:end] @ matrix
            begin = max(begin, end)
        return found

    library = torch.library.Library("transformers", "FRAGMENT")
    library.define("grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor")
    library.impl("grouped_mm_fallback", grouped_matmul, "CPU")
    torch.library.register_fake(
        "transformers::grouped_mm_fallback",
        lambda input, weight, offs: input.new_empty(input.shape[0], weight.shape[2]),
        lib=library,
    )
    yield torch.ops.transformers.grouped_mm_fallback
    library._destroy()


@pytest.mark.parametrize(("rows", "ends"), [(6, [1, 1, 6]), (6, [2, 4, 5]), (2, [0, 1, 2]), (2, [1, 1, 1])])
def test_each_row_is_multiplied_by_its_groups_matrix(multiply, rows, ends):
    class Experts(nn.Module):
        def forward(self, x, ends):
            return multiply(x, EXPERTS, ends)

    inputs = torch.arange(rows * 4.0).reshape(rows, 4).cos(), torch.tensor(ends)
    imported = read(torch.export.export(Experts(), inputs), ImportOptions(source="net"))
    found = outputs(imported, *(value.numpy() for value in inputs))[0]
    np.testing.assert_allclose(found, Experts()(*inputs).numpy(), rtol=1e-5, atol=1e-6)
