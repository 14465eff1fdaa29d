"""Layer norms over several axes are correct in another layout."""

from typing import Any

import numpy as np
import tvm

from tests.tune.graphs import graph
from tests.unoptimised import unoptimised_machine
from tvmake.transform.layouts.choices import LAYOUTS
from tvmake.transform.layouts.norms import flatten_norms

op = tvm.relax.op
F32 = "float32"
SHAPES = [(1, 3, 5, 4), (6, 3, 1, 1), (6, 5, 4), (6, 5, 4)]


def normed(data: Any, weight: Any, scale: Any, shift: Any) -> Any:
    return op.nn.layer_norm(op.nn.conv2d(data, weight), scale, shift, axes=[-3, -2, -1])


def computed(module: "tvm.IRModule") -> np.ndarray:
    """Run a network with fixed random inputs."""
    generator = np.random.default_rng(0)
    shapes = [tuple(map(int, parameter.ty.shape)) for parameter in module["main"].params]
    values = [generator.standard_normal(shape).astype(F32) for shape in shapes]
    machine = unoptimised_machine(module)
    return machine["main"](*map(tvm.runtime.tensor, values)).numpy()


def network() -> "tvm.IRModule":
    return graph(normed, *((shape, F32) for shape in SHAPES))


def converted(module: "tvm.IRModule") -> "tvm.IRModule":
    return tvm.relax.transform.ConvertLayout(LAYOUTS["NHWC"])(module)


def test_a_norm_is_the_same_in_another_layout():
    expected = computed(network())
    assert np.allclose(computed(flatten_norms(network())), expected, atol=1e-5)
    assert np.allclose(computed(converted(flatten_norms(network()))), expected, atol=1e-5)


def rms_norm(x, kernel, scale):
    return op.nn.rms_norm(op.nn.conv2d(x, kernel), scale, axes=[-1])


RMS = (rms_norm, ((1, 3, 8, 8), F32), ((4, 3, 3, 3), F32), ((6,), F32))


def test_an_rms_norm_is_the_same_in_another_layout():
    assert np.allclose(computed(converted(flatten_norms(graph(*RMS)))), computed(graph(*RMS)), atol=1e-5)


def test_a_norm_over_one_axis_stays_unchanged():
    module = graph(
        lambda x, scale, shift: op.nn.layer_norm(x, scale, shift, axes=[-1]), ((2, 7), F32), ((7,), F32), ((7,), F32)
    )
    assert flatten_norms(module).script() == module.script()
