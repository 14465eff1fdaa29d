"""Results of texture and buffer kernels on PoCL's OpenCL device."""

import numpy as np
import pytest
import tvm

from tests.requirements import hint, require
from tests.targets.adreno_texture.nets import BUFFER, TEXTURE, conv, executable, lowered, op, tensor
from tests.tune.graphs import graph
from tests.unoptimised import compile_unoptimised
from tvmake.codegen.weights import packed_weights
from tvmake.native.backend import opencl_library

X = tensor(1, 8, 12, 12)
WEIGHTS = [
    tensor(16, 8, 3, 3), tensor(16), tensor(16, 1, 3, 3), tensor(16, 8, 3, 3), tensor(16, 32, 1, 1), tensor(16, 10),
]  # fmt: skip


def net(x, w, b, depthwise, grouped, narrow, dense):
    """Plain, depthwise and grouped convolutions, a residual, poolings, a gate, concatenation, splits, and a matmul."""
    first = op.nn.relu(op.add(conv(x, w), op.reshape(b, (1, 16, 1, 1))))
    second = op.clip(conv(first, depthwise, groups=16), 0, 6)
    third = op.nn.relu(op.add(conv(second, grouped, groups=2), first))
    gated = op.multiply(third, op.sigmoid(op.mean(third, [2, 3], keepdims=True)))
    joined = op.concat([gated, op.nn.softmax(second, 1)], 1)
    parts = op.split(conv(joined, narrow, padding=0), 2, 1)
    summed = op.concat([op.add(parts[0], parts[1]), parts[1]], 1)
    pooled = op.nn.avg_pool2d(op.nn.max_pool2d(summed, (3, 3), (2, 2), (1, 1)), (2, 2), (2, 2))
    large = op.image.resize2d(pooled, (6, 6), method="nearest_neighbor", coordinate_transformation_mode="asymmetric")
    return op.matmul(op.reshape(op.nn.adaptive_avg_pool2d(large, (1, 1)), (1, 16)), dense)


@pytest.fixture(scope="module")
def device():
    """The first OpenCL device."""
    opencl_library()
    found = tvm.device("opencl", 0)
    require(found.exist, hint("PoCL"))
    return found


@pytest.fixture(scope="module")
def values():
    random = np.random.default_rng(0)
    return [(random.standard_normal(shape) * 0.3).astype(dtype) for shape, dtype in [X, *WEIGHTS]]


@pytest.fixture(scope="module")
def expected(values):
    built = compile_unoptimised(graph(net, X, *WEIGHTS))
    return tvm.relax.VirtualMachine(built, tvm.cpu())["main"](*map(tvm.runtime.tensor, values)).numpy()


@pytest.mark.parametrize("name", [TEXTURE, pytest.param(BUFFER, marks=pytest.mark.long)])
def test_a_network_of_many_operators_computes_what_it_does_on_the_cpu(name, device, values, expected):
    made = lowered(net, X, *WEIGHTS, name=name)
    params = {f"x{number}": tvm.runtime.tensor(value) for number, value in enumerate(values[1:], 1)}
    names = [str(one.name) for one in made.fused["main"].params[1:]]
    packed = packed_weights(params, made.packings, names) if made.packings else params
    machine = tvm.relax.VirtualMachine(executable(made, name), device)
    arguments = [values[0], *(packed[one].numpy() for one in names)]
    machine.set_input("main", *(tvm.runtime.tensor(value, device) for value in arguments))
    machine.invoke_stateful("main")
    np.testing.assert_allclose(machine.get_outputs("main").numpy(), expected, rtol=1e-4, atol=1e-5)


def integers(x, w, depthwise, dense):
    """Quantised convolutions, a pooling and a matmul, with float arithmetic between them."""
    small = op.astype(op.clip(op.round(op.multiply(x, const(50))), -128, 127), "int8")
    sums = op.nn.conv2d(small, w, padding=1, out_dtype="int32")
    second = op.astype(op.clip(op.round(op.multiply(op.astype(sums, "float32"), const(0.02))), 0, 255), "uint8")
    pooled = op.nn.max_pool2d(second, (2, 2), (2, 2))
    more = op.nn.conv2d(pooled, depthwise, padding=1, groups=16, out_dtype="int32")
    third = op.astype(op.clip(op.round(op.multiply(op.astype(more, "float32"), const(0.01))), 0, 255), "uint8")
    return op.matmul(op.reshape(third, (1, 16 * 36)), dense, out_dtype="int32")


def const(value):
    return tvm.relax.const(np.float32(value))


def test_integers_stay_in_buffers_and_are_exact(device):
    shapes = [tensor(*shape, dtype="int8") for shape in ((16, 8, 3, 3), (16, 1, 3, 3), (16 * 36, 10))]
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(X[0]).astype(np.float32)]
    inputs += [random.integers(-127, 128, shape).astype(np.int8) for shape, _ in shapes]
    built = compile_unoptimised(graph(integers, X, *shapes))
    expected = tvm.relax.VirtualMachine(built, tvm.cpu())["main"](*map(tvm.runtime.tensor, inputs)).numpy()
    machine = tvm.relax.VirtualMachine(executable(lowered(integers, X, *shapes)), device)
    found = machine["main"](*(tvm.runtime.tensor(value, device) for value in inputs)).numpy()
    np.testing.assert_array_equal(found, expected)
    assert expected.std() > 0
