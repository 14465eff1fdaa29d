"""What texture and buffer kernels compute, on PoCL's OpenCL device."""

import numpy as np
import pytest
import tvm

from tests.requirements import hint, require
from tests.targets.adreno.nets import BUFFER, TEXTURE, conv, executable, lowered, op, tensor
from tests.tune.graphs import graph
from tvmake.codegen.weights import packed_weights
from tvmake.native.backend import opencl_library

X = tensor(1, 8, 12, 12)
WEIGHTS = [
    tensor(16, 8, 3, 3), tensor(16), tensor(16, 1, 3, 3), tensor(16, 8, 3, 3), tensor(16, 32, 1, 1), tensor(16, 10),
]  # fmt: skip


def net(x, w, b, depthwise, grouped, narrow, dense):
    """Convolutions plain, depthwise and grouped, a residual, poolings, a gate, joining and splitting, and a matrix."""
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
    built = tvm.compile(graph(net, X, *WEIGHTS), target="llvm")
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
