"""Views of floats as integers, against PyTorch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.frontend.torch.running import Of, outputs
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read

EDGES = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, 3e38, -3e38, 1e-40, -1e-45, torch.inf, -torch.inf, torch.nan, 1.1754943508222875e-38, -3.7])  # fmt: skip

FUNCTIONS: dict[str, Callable[[Tensor], Any]] = {
    "views": lambda x: ((x.view(torch.int32) & 0x7FFFFFFF).view(torch.float32), x.view(torch.int32) >> 23),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bits_equal_those_of_pytorch(name: str):
    imported = read(torch.export.export(Of(FUNCTIONS[name]), (EDGES,)), ImportOptions(source="net"))
    for actual, expected in zip(outputs(imported, EDGES.numpy()), FUNCTIONS[name](EDGES), strict=True):
        np.testing.assert_array_equal(actual, expected.numpy())


def test_a_view_of_another_width_is_refused():
    program = torch.export.export(Of(lambda x: x.view(torch.int16)), (EDGES,))
    with pytest.raises(InputError) as caught:
        read(program, ImportOptions(source="net"))
    assert "another width" in caught.value.problem
