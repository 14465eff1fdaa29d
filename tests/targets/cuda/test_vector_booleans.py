"""Booleans of vectorised CUDA kernels take one byte each in memory."""

import re

import tvm

from tvmake.targets.backends import kernel_pipeline

from tvm import te  # isort: skip

CUDA = tvm.target.Target({"kind": "cuda", "arch": "sm_90", "host": "llvm"})


def source(pipeline: str) -> str:
    """A kernel that writes four booleans in each of its threads."""
    data = te.placeholder((128,), "float16", name="data")
    made = te.create_prim_func(
        [data, te.compute((128,), lambda place: data[place] > tvm.tirx.const(0, "float16"), name="is_positive")]
    )
    schedule = tvm.s_tir.Schedule(made)
    threads, lanes = schedule.split(schedule.get_loops(schedule.get_sblock("is_positive"))[0], [None, 4])
    schedule.bind(threads, "threadIdx.x")
    schedule.vectorize(lanes)
    return tvm.tirx.build(schedule.mod, target=CUDA, pipeline=pipeline).imports[0].inspect_source()


def test_booleans_are_stored_as_bytes():
    assert not re.search(r"\*\(ushort4\*\)\(is_positive", source(kernel_pipeline(CUDA)))
