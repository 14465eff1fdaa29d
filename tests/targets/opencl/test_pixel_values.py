"""A store to a texture writes the current value."""

import re

import tvm

from tests.targets.adreno_texture.nets import kernels, target
from tvmake.targets.backends import kernel_pipeline

from tvm import te  # isort: skip

STORED = re.compile(r"write_imagef\([^;]*as_float4\((.*)\)\);")


def unrolled_source():
    """A kernel whose thread writes two pixels in sequence."""
    shape = [1, 2, 4, 2, 4]
    given = te.placeholder(shape, "float32", name="given")
    module = tvm.IRModule(
        {"main": te.create_prim_func([given, te.compute(shape, lambda *at: given[at] + 1.0, name="out")])}
    )
    function = module["main"]
    result = function.params[1]
    texture = tvm.tirx.decl_buffer(list(result.ty.shape), "float32", "out", scope="global.texture-weight")
    schedule = tvm.s_tir.Schedule(function.specialize({result: texture}))
    *outer, last, lanes = schedule.get_loops(schedule.get_sblock("out"))
    schedule.bind(schedule.fuse(*outer), "threadIdx.x")
    schedule.unroll(last)
    schedule.vectorize(lanes)
    (source,) = kernels(tvm.tirx.build(schedule.mod, target=target(), pipeline=kernel_pipeline(target()))).values()
    return source


def test_each_store_reads_the_buffer_itself():
    stored = STORED.findall(unrolled_source())
    assert len(stored) == 2 and all(re.match(r"vload4\(0, pixel|pixel", value) for value in stored)
