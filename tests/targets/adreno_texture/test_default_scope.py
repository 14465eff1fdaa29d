"""Every result of a network with textures has a memory scope, so that views have one, too."""

import numpy as np
import tvm

from tests.requirements import need
from tests.targets.adreno_texture.nets import executable, lowered, op, tensor
from tvmake.native.backend import opencl_library

from tvm import relax  # isort: skip

X, W = tensor(1, 9, 8), tensor(4, 9, 1, 1)


def with_two_views(x, w):
    """A convolution of sequences, and its input as an image."""
    found = op.nn.conv2d(op.expand_dims(x, 2), w)
    return relax.Tuple([op.squeeze(found, 2), op.reshape(x, (1, 9, 1, 8))])


def test_a_convolution_beside_views_is_right():
    need("PoCL")
    opencl_library()
    generator = np.random.default_rng(0)
    x, w = (generator.standard_normal(shape).astype(np.float32) for shape in ((1, 9, 8), (4, 9, 1, 1)))
    device = tvm.device("opencl", 0)
    machine = relax.VirtualMachine(executable(lowered(with_two_views, X, W)), device)
    first, second = (one.numpy() for one in machine["main"](*(tvm.runtime.tensor(one, device) for one in (x, w))))
    np.testing.assert_allclose(first[0], w[:, :, 0, 0] @ x[0], rtol=1e-5, atol=1e-5)
    assert np.array_equal(second, x.reshape(1, 9, 1, 8))


def test_a_convolution_that_no_blocks_suit_has_its_result_in_a_buffer():
    """The beginning of wav2vec 2."""

    def net(x, w, scale, shift, v):
        normed = op.nn.group_norm(op.squeeze(op.nn.conv2d(x, w), [2]), scale, shift, 4, 1, [2])
        return op.nn.conv2d(op.expand_dims(op.nn.gelu(normed), [2]), v)

    made = lowered(net, tensor(1, 1, 1, 64), tensor(16, 1, 1, 3), tensor(16), tensor(16), tensor(16, 16, 1, 3))
    results = [binding.value.ty for block in made.fused["main"].body.blocks for binding in block.bindings]
    assert all(result.vdevice is not None for result in results)
    assert executable(made)
