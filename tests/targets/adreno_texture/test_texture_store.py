"""A texture's pixel is written by one store."""

import re

import pytest
import tvm

from tests.targets.adreno_texture.nets import conv, executable, lowered, op, sources, target, tensor
from tvmake.targets.adreno_texture.lowering.texture_store import store_whole_pixels

X, W, V = tensor(1, 8, 8, 8), tensor(8, 8, 3, 3), tensor(8, 8, 3, 3)


def two(x, w, v):
    return conv(conv(x, w), v)


def test_a_pixel_is_stored_as_a_vector():
    made = sources(two, X, W, V)
    written = [source for source in made.values() if "write_imagef" in source]
    assert written
    for source in written:
        stored = re.findall(r"write_imagef\([^;]*as_float4\((.*)\)\);", source)
        vectors = re.findall(r"float4 (v_\w*) = vload4\(", source)
        assert stored
        assert all(value.startswith(("vload4(0, pixel", "pixel")) or value in vectors for value in stored)


def test_a_schedule_that_writes_single_lanes_is_refused():
    function = next(
        one
        for name, one in lowered(two, X, W, V).unscheduled.functions_items()
        if isinstance(one, tvm.tirx.PrimFunc) and name.name_hint == "te_layout_transform"
    )
    schedule = tvm.s_tir.Schedule(function)
    block = schedule.get_sblock("te_layout_transform")
    threads = schedule.fuse(*schedule.get_loops(block))
    schedule.bind(threads, "threadIdx.x")
    from tvmake.targets.backends import kernel_pipeline

    with pytest.raises(ValueError, match="writes single lanes of the texture"):
        tvm.tirx.build(schedule.mod, target=target(), pipeline=kernel_pipeline(target()))


def test_kernels_without_textures_are_left_alone():
    function = tvm.IRModule({"main": _plain()})
    assert store_whole_pixels(function)["main"].same_as(function["main"])


def _plain():
    made = lowered(lambda x, w: op.matmul(x, w), tensor(4, 4), tensor(4, 4))
    return next(one for _, one in made.unscheduled.functions_items() if isinstance(one, tvm.tirx.PrimFunc))


@pytest.mark.parametrize(
    "expression",
    [
        lambda x, w, v: conv(op.nn.relu(op.multiply(conv(x, w), op.sigmoid(op.mean(conv(x, w), [2, 3], True)))), v),
        lambda x, w, v: conv(op.image.resize2d(conv(x, w), (16, 16), method="nearest_neighbor"), v),
        lambda x, w, v: conv(op.nn.max_pool2d(conv(x, w), (3, 3), (2, 2), (1, 1)), v),
        lambda x, w, v: conv(op.nn.softmax(conv(x, w), 1), v),
        lambda x, w, v: op.nn.conv2d_transpose(conv(x, w), op.strided_slice(v, [2, 3], [0, 0], [2, 2])),
    ],
    ids=["gate", "resize", "max_pool", "softmax", "transposed"],
)
def test_kernels_that_dlight_has_no_texture_schedule_for_have_code(expression):
    assert executable(lowered(expression, X, W, V))
