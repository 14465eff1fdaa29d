"""Running sums on OpenCL."""

import numpy as np
import pytest
import tvm

from tests.requirements import hint, require
from tests.targets.adreno_texture.nets import BUFFER, executable, lowered, op, tensor
from tvmake.native.backend import opencl_library

X = tensor(3, 40, 7)


@pytest.mark.parametrize("options", [{"axis": 2}, {"axis": 1}, {"axis": 0, "exclusive": True}, {"axis": None}])
def test_sums_are_those_of_numpy(options):
    opencl_library()
    device = tvm.device("opencl", 0)
    require(device.exist, hint("PoCL"))
    values = np.random.default_rng(0).standard_normal(X[0]).astype("float32")
    expected = np.cumsum(values, options["axis"])
    if options.get("exclusive"):
        expected = expected - values
    built = executable(lowered(lambda x: op.cumsum(x, **options), X, name=BUFFER), BUFFER)
    result = tvm.relax.VirtualMachine(built, device)["main"](tvm.runtime.tensor(values, device)).numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
