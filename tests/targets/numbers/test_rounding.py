"""Rounding to the nearest integer is vectorised."""

import numpy as np
import tvm

from tvmake.targets.backends import kernel_pipeline
from tvmake.targets.numbers.rounding import IS_VECTOR, ROUNDING

from tvm import te  # isort: skip

TARGET = tvm.target.Target("llvm")


def test_a_loop_over_lanes_is_a_vector():
    pipeline = kernel_pipeline(TARGET)
    x = te.placeholder((32,), "float32", name="x")
    schedule = tvm.s_tir.Schedule(
        te.create_prim_func([x, te.compute((32,), lambda i: tvm.tirx.nearbyint(x[i]), name="y")])
    )
    _, lanes = schedule.split(*schedule.get_loops("y"), factors=[None, 8])
    schedule.vectorize(lanes)
    assert tvm.ir.Op.get(ROUNDING).get_attr(IS_VECTOR)
    values = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.2, -3.7] * 4, "float32")
    result = tvm.runtime.tensor(np.zeros(32, "float32"))
    tvm.tirx.build(schedule.mod, TARGET, pipeline=pipeline)["main"](tvm.runtime.tensor(values), result)
    np.testing.assert_array_equal(result.numpy(), np.rint(values))
