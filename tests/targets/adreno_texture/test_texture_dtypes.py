"""Only floats of 16 or 32 bits are stored in textures."""

import re

import numpy as np
import pytest
import tvm

from tests.requirements import need
from tests.targets.adreno_texture.nets import executable, lowered, op, tensor
from tvmake.native.backend import opencl_library

from tvm import relax  # isort: skip

BLOCKS = (1, 4, 3, 4, 4)
"""A shape that TVM mistakes for blocks of four channels."""

NUMBERS = ("int8", "uint8", "int16", "int32", "int64", "float64")


def positions(x):
    """Indices of the largest values, in five axes, the last one of four."""
    return op.permute_dims(op.argmax(x, 3, keepdims=True), [1, 0, 3, 4, 2])


def converted(dtype):
    """Conversion and back, with a kernel between that cannot be fused with its neighbours."""
    return lambda x: op.astype(op.max(op.astype(op.max(x, 3, keepdims=True), dtype), 2, keepdims=True), "float32")


@pytest.mark.parametrize("dtype", NUMBERS)
def test_no_kernel_has_others_in_a_texture(dtype: str):
    made = lowered(converted(dtype), tensor(*BLOCKS))
    assert not re.search(rf"{dtype}.*global\.texture", str(made.fused["main"]))
    assert executable(made)


@pytest.mark.parametrize("dtype", [*NUMBERS, "bool"])
def test_nor_an_argument(dtype: str):
    made = lowered(lambda x: op.max(op.astype(x, "float32"), 4, keepdims=True), tensor(*BLOCKS, dtype=dtype))
    assert "global.texture" not in str(made.fused["main"])


@pytest.mark.parametrize("dtype", [*NUMBERS, "bool"])
def test_nor_a_constant(dtype: str):
    constant = relax.const(np.ones(BLOCKS, dtype), dtype)
    made = lowered(lambda x: op.where(op.equal(x, constant), x, constant), tensor(*BLOCKS, dtype=dtype))
    assert not re.search(rf"{dtype}\", scope=\"global\.texture", str(made.fused))
    assert executable(made)


def test_indices_in_five_axes_are_right():
    need("PoCL")
    opencl_library()
    data = np.random.default_rng(0).standard_normal(BLOCKS).astype(np.float32)
    device = tvm.device("opencl", 0)
    machine = relax.VirtualMachine(executable(lowered(positions, tensor(*BLOCKS))), device)
    found = machine["main"](tvm.runtime.tensor(data, device)).numpy()
    assert np.array_equal(found, data.argmax(3)[:, :, :, None].transpose(1, 0, 3, 4, 2))
