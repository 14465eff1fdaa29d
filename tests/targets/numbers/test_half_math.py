"""Functions of 16-bit floats."""

import numpy as np
import pytest
import tvm

from tvmake.targets.backends import kernel_pipeline
from tvmake.targets.numbers.half_math import FUNCTIONS

from tvm import te  # isort: skip

OF_TWO = ("atan2", "copysign", "hypot", "nextafter")
X, Y = np.linspace(0.1, 0.9, 8, dtype="float16"), np.linspace(-0.9, 0.9, 8, dtype="float16")
NUMPYS = {
    "acos": "arccos",
    "asin": "arcsin",
    "atan": "arctan",
    "atan2": "arctan2",
    "asinh": "arcsinh",
    "atanh": "arctanh",
}


def kernel(name: str) -> "tvm.tirx.PrimFunc":
    """A function of each of eight values."""
    operands = [te.placeholder((8,), "float16", name=one) for one in ("x", "y")[: 1 + (name in OF_TWO)]]
    function = getattr(tvm.tirx, name)
    result = te.compute((8,), lambda place: function(*(one[place] for one in operands)), name="result")
    return te.create_prim_func([*operands, result])


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in ("acosh", "nextafter")])
def test_a_processor_computes_them(name: str):
    target = tvm.target.Target("llvm")
    operands = [X, Y][: 1 + (name in OF_TWO)]
    module = tvm.tirx.build(kernel(name), target, pipeline=kernel_pipeline(target))
    result = tvm.runtime.tensor(np.zeros(8, "float16"))
    module["main"](*map(tvm.runtime.tensor, operands), result)
    numpys = getattr(np, NUMPYS.get(name, name))
    np.testing.assert_allclose(result.numpy(), numpys(*(one.astype("float64") for one in operands)), rtol=2e-3)
