"""Resizes, poolings and paddings of dynamic height and width, at several sizes, against PyTorch."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import tvm
from torch import nn

from tests.unoptimised import unoptimised_machine
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read

F = nn.functional
SIZES = [(8, 12), (7, 5), (2, 9)]
MODES = ["nearest", "nearest-exact", "bilinear", "bicubic"]


class Network(nn.Module):
    """Several results of an image, some with the size of another image."""

    def __init__(self, function: Callable[..., tuple[torch.Tensor, ...]]):
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, like: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.function(x, like)


def assert_equals_pytorch(function: Callable[..., tuple[torch.Tensor, ...]]) -> None:
    network, dynamic = Network(function), torch.export.Dim.DYNAMIC
    axes = {0: dynamic, 2: dynamic, 3: dynamic}
    images = torch.randn(2, 4, 8, 10), torch.randn(3, 4, 9, 19)
    program = torch.export.export(network, images, dynamic_shapes={"x": axes, "like": axes})
    imported = read(program, ImportOptions(source="net"))
    machine = unoptimised_machine(imported.module)
    weights = [imported.params[str(parameter.name)] for parameter in imported.module["main"].params[2:]]
    for height, width in SIZES:
        inputs = torch.randn(2, 4, height, width), torch.randn(3, 4, height + 1, 2 * width - 1)
        results = machine["main"](*(tvm.runtime.tensor(value.numpy()) for value in inputs), *weights)
        for result, expected in zip(results, network(*inputs), strict=True):
            assert result.shape == tuple(expected.shape)
            np.testing.assert_allclose(result.numpy(), expected.numpy(), atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_aligned", [False, True])
def test_images_are_resized_by_factors_and_to_sizes(mode: str, is_aligned: bool):
    if is_aligned and mode.startswith("nearest"):
        pytest.skip("PyTorch has no nearest elements of aligned corners")
    options = {"mode": mode} if mode.startswith("nearest") else {"mode": mode, "align_corners": is_aligned}

    def resize(x, like):
        return (
            F.interpolate(x, scale_factor=2, **options),
            F.interpolate(x, scale_factor=(1.5, 0.6), **options),
            F.interpolate(x, scale_factor=1.3, recompute_scale_factor=True, **options),
            F.interpolate(x, size=(x.shape[2] * 2, x.shape[3] * 2), **options),
            F.interpolate(x, size=like.shape[2:], **options),
            F.interpolate(x, size=(6, 1), **options),
        )

    assert_equals_pytorch(resize)


def test_sequences_and_volumes_are_resized():
    assert_equals_pytorch(
        lambda x, like: (
            F.interpolate(x.flatten(2), scale_factor=2, mode="linear"),
            F.interpolate(like.flatten(2), scale_factor=1.5, mode="nearest"),
            F.interpolate(x[:, None], scale_factor=2, mode="nearest"),
            F.interpolate(like[:, None], size=(3, *x.shape[2:]), mode="trilinear"),
        )
    )


def test_adaptive_poolings_take_the_size_of_the_input():
    assert_equals_pytorch(
        lambda x, like: (
            F.adaptive_max_pool2d(x, 2),
            F.adaptive_avg_pool2d(like, (2, 4)),
            F.adaptive_avg_pool2d(x, (1, None)),
            F.adaptive_avg_pool2d(like, (None, 1)),
        )
    )


def test_an_average_may_have_a_divisor_of_its_own():
    assert_equals_pytorch(
        lambda x, like: (
            F.avg_pool2d(x, 2, 2, divisor_override=3),
            F.avg_pool2d(like, 3, 2, padding=1, divisor_override=5),
        )
    )


def test_images_are_padded_in_every_mode():
    assert_equals_pytorch(
        lambda x, like: tuple(
            F.pad(image, (1, 0, 1, 1), mode=mode)
            for mode in ("constant", "replicate", "reflect", "circular")
            for image in (x, like)
        )
    )
