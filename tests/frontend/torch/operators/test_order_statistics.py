"""Sorts and order statistics, with NaN as the largest value, against PyTorch."""

import math

import pytest
import torch

from tests.frontend.torch.running import assert_equals_pytorch

GAPS = torch.tensor([[1.0, math.nan, 3.0, -2.0], [2.0, 5.0, math.inf, 0.0], [math.nan, 7.0, math.nan, 1.0]])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tuple(torch.sort(x, 1)),
        lambda x: torch.sort(x, 1, descending=True)[0],
        lambda x: (*torch.median(x, 1), torch.median(x)),
        lambda x: (*torch.nanmedian(x, 1), *torch.nanmedian(x, 0, keepdim=True), torch.nanmedian(x)),
        lambda x: torch.nanquantile(x, 0.3, 1),
    ],
    ids=["ascending", "descending", "medians", "medians of numbers", "quantiles of numbers"],
)
def test_it_equals_pytorch(function):
    assert_equals_pytorch(function, GAPS)
