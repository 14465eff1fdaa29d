"""Copies between buffers and textures happen only if needed."""

import numpy as np
import tvm

from tests.requirements import need
from tests.targets.adreno_texture.nets import executable, lowered, op, tensor
from tvmake.native.backend import opencl_library

from tvm import relax  # isort: skip

ROWS, COLUMNS = np.array([[0], [2]]), np.array([3, 1, 1])


def lookup(x):
    return op.index_tensor(x, [relax.const(ROWS), relax.const(COLUMNS)])


def test_a_constant_is_not_copied():
    assert not any("copy" in str(name) for name, _ in lowered(lookup, tensor(4, 5, 6)).final.functions_items())


def test_a_lookup_by_constants_is_right():
    need("PoCL")
    opencl_library()
    data = np.arange(120, dtype=np.float32).reshape(4, 5, 6)
    device = tvm.device("opencl", 0)
    machine = relax.VirtualMachine(executable(lowered(lookup, tensor(4, 5, 6))), device)
    assert np.array_equal(machine["main"](tvm.runtime.tensor(data, device)).numpy(), data[ROWS, COLUMNS])


def test_an_input_of_five_axes_is_taken_in_a_buffer():
    """TVM mistakes it for blocks of channels."""
    need("PoCL")
    opencl_library()
    data = np.random.default_rng(0).standard_normal((1, 2, 6, 6, 4)).astype(np.float32)
    device = tvm.device("opencl", 0)
    made = lowered(lambda x: op.max(op.nn.relu(x), 4, keepdims=True), tensor(*data.shape))
    machine = relax.VirtualMachine(executable(made), device)
    found = machine["main"](tvm.runtime.tensor(data, device)).numpy()
    np.testing.assert_allclose(found, np.maximum(data, 0).max(4, keepdims=True))
