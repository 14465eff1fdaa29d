"""Convolutions on textures, with several pixels and blocks of channels per thread."""

from typing import Any

import pytest

from tests.requirements import need
from tests.targets.adreno_texture.nets import TEXTURE, conv, op, sources, tensor
from tests.targets.gpu.nets import error, kernels_by_rule
from tvmake.targets.adreno_texture.pixel_tiles import PixelTiles, tile


def two(data: Any, first: Any, second: Any, bias: Any) -> Any:
    """Two convolutions with a texture between them."""
    return op.nn.relu(op.add(conv(op.nn.relu(conv(data, first)), second), bias))


def strided(data: Any, first: Any, second: Any) -> Any:
    return conv(conv(data, first), second, strides=2, padding=3)


NETWORKS = {
    "few pixels": (two, tensor(1, 8, 7, 7), tensor(16, 8, 3, 3), tensor(12, 16, 3, 3), tensor(1, 12, 1, 1)),
    "many pixels": (two, tensor(1, 4, 64, 64), tensor(32, 4, 3, 3), tensor(32, 32, 1, 1), tensor(1, 32, 1, 1)),
    "large windows": (strided, tensor(1, 4, 30, 32), tensor(8, 4, 3, 3), tensor(16, 8, 7, 7)),
}


@pytest.mark.parametrize("what", NETWORKS)
def test_pixels_and_blocks_of_a_thread_share_loaded_values(what: str):
    need("PoCL")
    assert len(kernels_by_rule(PixelTiles(), *NETWORKS[what], name=TEXTURE)) == 2
    assert error(*NETWORKS[what], name=TEXTURE) < 1e-5


def test_padding_is_not_a_separate_pass_over_memory():
    convolutions = [name for name in sources(*NETWORKS["few pixels"]) if "conv2d" in name]
    assert len(convolutions) == 2


def test_grouped_convolutions_are_left_to_other_rules():
    grouped = (lambda x, w: conv(x, w, groups=2), tensor(1, 8, 12, 12), tensor(16, 4, 3, 3))
    assert not kernels_by_rule(PixelTiles(), *grouped, name=TEXTURE)


def test_tiles_leave_enough_threads():
    assert tile(1, 16, 112, 112) == (4, 2)
    assert tile(1, 128, 7, 7) == (1, 1)
