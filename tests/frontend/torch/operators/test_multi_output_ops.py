"""Norms return their means and standard deviations."""

import torch

from tests.frontend.torch.running import assert_equals_pytorch


def test_statistics_of_norms_are_returned():
    def function(x):
        layer = torch.native_layer_norm(x, [4, 5], torch.arange(20.0).reshape(4, 5), None, 1e-3)
        group = torch.native_group_norm(x, torch.arange(4.0), torch.ones(4), 2, 4, 5, 2, 1e-3)
        return layer[1] * 2, layer[2], *group[1:]

    assert_equals_pytorch(function, torch.randn(2, 4, 5) * 3 + 1)
