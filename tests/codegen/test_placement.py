"""A package for textures reports what is in images, what is not, and why."""

from tests.targets.adreno_texture.nets import conv, lowered, op, tensor
from tvmake.codegen.manifest import NEIGHBOURS, NOT_IN_BLOCKS, placement

X, W = tensor(1, 8, 12, 10), tensor(16, 8, 3, 3)


def placement_of(expression, **limits: int):
    attributes = {"texture_spatial_limit": 16384, "texture_depth_limit": 2048, **limits}
    return placement(lowered(expression, X, W).fused, attributes)


def test_kernels_and_bytes_are_counted():
    found = placement_of(lambda x, w: op.nn.softmax(conv(op.nn.relu(x), w), 1))
    assert found.image_kernels > 0
    assert found.buffer_kernels == len(found.in_buffers) > 0
    assert found.image_bytes > 0
    # The input and the output at least, float32.
    assert found.buffer_bytes >= 4 * (8 * 12 * 10 + 16 * 12 * 10)
    assert set(found.in_buffers.values()) <= {NOT_IN_BLOCKS, NEIGHBOURS}


def test_the_largest_image_holds_each():
    width, height, layers = placement_of(lambda x, w: conv(conv(x, w), tensor_of_ones())).largest_image
    assert width * height * layers == 4 * 12 * 10


def tensor_of_ones():
    import numpy as np
    import tvm

    return tvm.relax.const(np.ones((16, 16, 1, 1), "float32"))


def test_a_network_without_images_has_none():
    found = placement_of(lambda x, w: op.nn.softmax(x, 1))
    assert (found.image_kernels, found.image_bytes, found.largest_image) == (0, 0, (0, 0, 0))
    assert set(found.in_buffers.values()) == {NOT_IN_BLOCKS}


def test_kernels_that_exceed_the_limits_are_named():
    found = placement_of(lambda x, w: conv(x, w), texture_spatial_limit=4)
    assert all("pixels" in reason or reason in (NOT_IN_BLOCKS, NEIGHBOURS) for reason in found.in_buffers.values())
