"""The pipeline from scheduled kernels to OpenCL source."""

from tests.targets.adreno_texture.nets import conv, only, sources, tensor

X, W, V = tensor(1, 8, 8, 8), tensor(8, 8, 3, 3), tensor(8, 8, 3, 3)


def two(x, w, v):
    return conv(conv(x, w), v)


def test_images_are_read_and_written_as_such():
    made = sources(two, X, W, V)
    writer = only(made, "te_layout_transform_kernel")
    assert "write_imagef" in writer and "__write_only image2d_array_t" in writer
    assert any("READ_IMAGEF" in source and "__read_only image2d_array_t" in source for source in made.values())
