"""The pipeline from scheduled kernels to OpenCL source."""

import pytest
import tvm

from tests.targets.adreno_texture.nets import conv, functions, lowered, only, sources, target, tensor, tvms_sources

X, W, V = tensor(1, 8, 8, 8), tensor(8, 8, 3, 3), tensor(8, 8, 3, 3)


def two(x, w, v):
    return conv(conv(x, w), v)


def test_tvms_own_pipeline_still_is_incomplete():
    """When this fails, targets/adreno_texture/lowering/pipeline.py can go, but for the passes that it adds."""
    with pytest.raises(TypeError):
        tvm.tirx.build(functions(lowered(two, X, W, V).final), target=target(), pipeline=None)


def test_the_general_pipeline_still_takes_images_for_pointers():
    """What relax.build does when no pipeline is named: the source is generated, and compiles nowhere."""
    source = only(tvms_sources(two, X, W, V, pipeline="default"), "te_layout_transform_kernel")
    assert "image2d_array_t te_layout_transform_ptr" in source
    assert "write_imagef" not in source


def test_images_are_read_and_written_as_such():
    made = sources(two, X, W, V)
    writer = only(made, "te_layout_transform_kernel")
    assert "write_imagef" in writer and "__write_only image2d_array_t" in writer
    assert any("READ_IMAGEF" in source and "__read_only image2d_array_t" in source for source in made.values())
