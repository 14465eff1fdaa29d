"""Reversals are right whatever comes before and after them."""

from typing import Any

import numpy as np
import pytest
import tvm

from tests.requirements import need
from tests.targets.adreno_texture.nets import BUFFER, TEXTURE, executable, lowered, op, tensor
from tvmake.native.backend import opencl_library

from tvm.sym.iter_affine_map import iter_map_simplify  # isort: skip


def test_tvm_still_divides_places_below_zero_wrongly():
    """When this fails, targets/kernels/no_fuse_reverse.py can go."""
    place = tvm.tirx.Var("place", "int64")
    four = tvm.tirx.IntImm("int64", 4)
    backwards = tvm.tirx.IntImm("int64", 7) - place
    whole = tvm.tirx.floordiv(backwards, four) * four + tvm.tirx.floormod(backwards, four)
    (found,) = iter_map_simplify([whole], {place: tvm.ir.Range(0, 8)})
    assert not tvm.sym.Analyzer().can_prove_equal(found, backwards)


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
