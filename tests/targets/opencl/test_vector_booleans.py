"""Booleans in vectorised OpenCL kernels are 0 and 1, and select the correct values."""

import numpy as np
import pytest
import tvm

from tests.requirements import hint, require
from tests.targets.adreno_texture.nets import BUFFER, executable, functions, lowered, op, target, tensor
from tests.tune.graphs import graph
from tests.unoptimised import unoptimised_machine
from tvmake.native.backend import opencl_library

X = tensor(4, 8, 16)

NETS = {
    "a comparison as a number": lambda x: op.multiply(op.astype(op.greater(x, tvm.relax.const(0.0)), "float32"), x),
    "a choice": lambda x: op.where(op.greater(x, tvm.relax.const(0.0)), x, op.multiply(x, tvm.relax.const(0.1))),
    "both together": lambda x: op.where(op.logical_and(op.less(x, tvm.relax.const(1.0)), op.isfinite(x)), op.exp(x), x),
}


def vectorised(module: "tvm.IRModule") -> "tvm.IRModule":
    """A network's kernels with four values per thread, as tuning schedules them."""
    made = {}
    for name, function in functions(module).functions_items():
        schedule = tvm.s_tir.Schedule(function.without_attr("tirx.is_scheduled"))
        for block in schedule.get_child_blocks(schedule.get_sblock("root"))[:-1]:
            schedule.compute_inline(block)
        (block,) = schedule.get_child_blocks(schedule.get_sblock("root"))
        blocks, threads, lanes = schedule.split(schedule.fuse(*schedule.get_loops(block)), [None, 32, 4])
        schedule.bind(blocks, "blockIdx.x")
        schedule.bind(threads, "threadIdx.x")
        schedule.vectorize(lanes)
        made[name] = schedule.mod["main"].with_attr("global_symbol", str(name.name_hint))
    return tvm.IRModule(made)


@pytest.mark.parametrize("net", NETS.values(), ids=NETS)
def test_a_vectorised_kernel_computes_what_it_does_on_the_cpu(net):
    from tvmake.targets.backends import kernel_pipeline

    opencl_library()
    device = tvm.device("opencl", 0)
    require(device.exist, hint("PoCL"))
    values = np.random.default_rng(0).standard_normal(X[0]).astype("float32")
    machine = unoptimised_machine(graph(net, X))
    expected = machine["main"](tvm.runtime.tensor(values)).numpy()
    fused = vectorised(lowered(net, X, name=BUFFER).fused)
    (name,) = (str(variable.name_hint) for variable in fused.get_global_vars())
    built = tvm.tirx.build(fused, target=target(BUFFER), pipeline=kernel_pipeline(target(BUFFER)))
    result = tvm.runtime.empty(X[0], "float32", device)
    built[name](tvm.runtime.tensor(values, device), result)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_a_whole_network_of_choices_builds_for_textures():
    assert executable(lowered(NETS["a choice"], X))
