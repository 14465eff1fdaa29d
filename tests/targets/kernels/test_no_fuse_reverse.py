"""Reversals are correct with any operators before and after them."""

from typing import Any

import numpy as np
import pytest
import tvm

from tests.requirements import need
from tests.targets.adreno_texture.nets import BUFFER, TEXTURE, executable, lowered, op, tensor
from tvmake.native.backend import opencl_library

CASES = {
    "reshaped before": (
        lambda x: op.flip(op.reshape(op.exp(x), (1, 8)), 1),
        lambda x: np.exp(x).reshape(1, 8)[:, ::-1],
    ),
    "twice": (
        lambda x: op.flip(op.flip(op.reshape(x, (1, 8)), 0), 1),
        lambda x: x.reshape(1, 8)[::-1, ::-1],
    ),
    "sliced": (
        lambda x: op.strided_slice(op.reshape(op.exp(x), (1, 8)), [1], [7], [-9], [-1]),
        lambda x: np.exp(x).reshape(1, 8)[:, ::-1],
    ),
}


@pytest.mark.parametrize("tag", [BUFFER, TEXTURE])
@pytest.mark.parametrize("name", CASES)
def test_a_reversal_is_right(name: str, tag: str):
    need("PoCL")
    opencl_library()
    expression, expected = CASES[name]
    x = np.random.default_rng(0).standard_normal((1, 2, 2, 2)).astype(np.float32)
    built = executable(lowered(expression, tensor(1, 2, 2, 2), name=tag), tag)
    device = tvm.device("opencl", 0)
    found: Any = tvm.relax.VirtualMachine(built, device)["main"](tvm.runtime.tensor(x, device)).numpy()
    np.testing.assert_allclose(found, expected(x), rtol=1e-6)
