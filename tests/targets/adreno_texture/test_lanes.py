"""Each lane of a vectorised loop has its own buffer."""

from tests.targets.adreno_texture.nets import conv, only, op, sources, tensor

X, W = tensor(1, 8, 8, 8), tensor(8, 8, 3, 3)


def pooled(x, w):
    return op.nn.adaptive_avg_pool2d(conv(x, w), (1, 1))


def test_each_channel_of_a_pooling_has_an_accumulator():
    assert "float4 adaptive_pool_sum_local_ptr[1];" in only(sources(pooled, X, W), "avg_pool2d")


def test_a_maximum_over_four_channels_is_four_maxima():
    made = only(sources(lambda x, w: op.nn.max_pool2d(conv(x, w), (2, 2), (2, 2)), X, W), "max_pool2d")
    assert "float pool_max_local_ptr[4];" in made or "float4 pool_max_local_ptr[1];" in made
