"""Kernels scheduled by records."""

from functools import partial

import numpy as np
import pytest
import tvm

from tests.requirements import hint, require
from tests.targets.adreno_texture.nets import BUFFER, TEXTURE, conv, executable, kernels, op, target, tensor
from tests.tune.graphs import graph
from tests.tune.replayed import best_set, traces
from tests.tune.replayed import kernels as functions
from tests.unoptimised import unoptimised_machine
from tvmake.codegen.kernel_analysis import why_trivial
from tvmake.codegen.lowering import fused_module, lower
from tvmake.codegen.options import PassOptions
from tvmake.codegen.scheduling.apply import apply_best
from tvmake.codegen.scheduling.coverage import coverage
from tvmake.codegen.scheduling.replay import replay
from tvmake.codegen.weights import packed_weights
from tvmake.native.backend import opencl_library
from tvmake.records.workload import workload
from tvmake.targets.backends import kernel_pipeline

X, W, V = tensor(1, 8, 14, 14), tensor(16, 8, 3, 3), tensor(16, 16, 3, 3)


def net(x, w, v):
    return op.nn.relu(conv(op.nn.relu(conv(x, w)), v))


def fused(name):
    return fused_module(graph(net, X, W, V), target(name), [], PassOptions(), 1, layout_free=False)


def tuned(name):
    best = best_set(fused(name), target(name))
    made = lower(
        graph(net, X, W, V), target(name), [], PassOptions(), 1, partial(apply_best, target=target(name), best=best)
    )
    return made, best


@pytest.fixture(scope="module", params=[BUFFER, TEXTURE])
def scheduled(request):
    return request.param, *tuned(request.param)


def test_a_build_uses_a_record_for_every_kernel_worth_one(scheduled):
    name, made, best = scheduled
    covered = coverage(made, target(name), best)
    assert covered.tuned == covered.tunable == 2 and not covered.misses
    assert len(kernels(executable(made, name).mod)) >= 2


@pytest.mark.long
def test_tuned_kernels_compute_what_the_network_does(scheduled):
    name, made, _ = scheduled
    opencl_library()
    device = tvm.device("opencl", 0)
    require(device.exist, hint("PoCL"))
    random = np.random.default_rng(0)
    x, w, v = (random.standard_normal(shape).astype(dtype) for shape, dtype in (X, W, V))
    reference = unoptimised_machine(graph(net, X, W, V))
    want = reference["main"](*map(tvm.runtime.tensor, (x, w, v))).numpy()
    params = {"x1": tvm.runtime.tensor(w), "x2": tvm.runtime.tensor(v)}
    names = [str(one.name) for one in made.fused["main"].params[1:]]
    packed = packed_weights(params, made.packings, names) if made.packings else params
    machine = tvm.relax.VirtualMachine(executable(made, name), device)
    machine.set_input(
        "main", *(tvm.runtime.tensor(value, device) for value in (x, *(packed[one].numpy() for one in names)))
    )
    machine.invoke_stateful("main")
    np.testing.assert_allclose(machine.get_outputs("main").numpy(), want, rtol=1e-3, atol=1e-3)


def test_every_candidate_of_a_convolution_writes_whole_pixels():
    own = next(
        workload(function, target())
        for name, function in functions(fused(TEXTURE)).items()
        if "conv2d" in name and "texture" in str(function.params[-1].ty.storage_scope)
    )
    for trace in traces(own, 4):
        module = tvm.IRModule({"main": replay(own, trace).with_attr("global_symbol", "main")})
        assert tvm.tirx.build(module, target=target(), pipeline=kernel_pipeline(target()))


def test_other_kernels_that_write_textures_are_not_tuned_for_a_stated_reason():
    large = tensor(1, 16, 64, 64)
    module = graph(lambda x, w: conv(op.nn.max_pool2d(conv(x, w), (2, 2), (2, 2)), w), large, tensor(16, 16, 3, 3))
    made = functions(fused_module(module, target(), [], PassOptions(), 1, layout_free=False))
    (pooling,) = [function for name, function in made.items() if "max_pool2d" in name]
    assert why_trivial(pooling) == "it writes a texture, and only convolutions are tuned to write whole pixels"
