"""Running sums on OpenCL."""

import numpy as np
import pytest
import tvm

from tests.requirements import hint, require
from tests.targets.adreno_texture.nets import BUFFER, executable, lowered, op, tensor
from tests.tune.graphs import graph
from tvmake.native.backend import opencl_library

X = tensor(3, 40, 7)


def test_tvm_still_takes_its_gpu_kernel_for_opencl():
    """When this fails, targets/opencl_scans.py can go."""
    from tests.targets.adreno_texture.nets import target

    module = graph(lambda x: op.cumsum(x, axis=2), X)
    with target(BUFFER):
        dispatched = tvm.relax.backend.DispatchSortScan()(module)
    assert "gpu_2d_continuous_cumsum" in {str(variable.name_hint) for variable in dispatched.get_global_vars()}


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
