"""Kernels with dynamic dimensions compute indices in 32 bits, and refuse tensors that are too large for that."""

from typing import Any

import numpy as np
import pytest
import tvm

from tests.requirements import need
from tests.targets.adreno_texture.nets import op, target
from tests.tune.graphs import graph
from tvmake.codegen.link import generate
from tvmake.codegen.lowering import Lowered, lower
from tvmake.codegen.options import BuildOptions, PassOptions
from tvmake.ir.bounds import with_bounds
from tvmake.native.backend import opencl_library
from tvmake.targets.gpu.ranges import narrow_indices

NVIDIA = "opencl-nvidia"
N = tvm.tirx.Var("n", "int64")


def lowered(*shape: Any, dtype: str = "float32", most: int | None = None) -> Lowered:
    module = with_bounds(graph(op.abs, (list(shape), dtype)), {"n": (1, most)})
    return lower(module, target(NVIDIA), [], PassOptions(), 1)


def dimension_type(made: Lowered) -> str:
    """The dtype of the dynamic dimension in the only kernel."""
    (kernel,) = [function for function in made.fused.functions.values() if isinstance(function, tvm.tirx.PrimFunc)]
    return str(kernel.params[0].ty.shape[0].ty.dtype)


@pytest.mark.parametrize(
    ("shape", "dtype", "most", "expected"),
    [
        ((N, 1000), "float32", None, "int32"),
        ((N, 1000), "float32", 1 << 20, "int32"),
        ((N, 1000), "float32", 1 << 22, "int64"),
        ((N, 1000), "int64", None, "int64"),
    ],
    ids=["no bound", "a bound within 32 bits", "a bound beyond 32 bits", "64-bit elements"],
)
def test_indices_have_32_bits_unless_larger_tensors_are_allowed(shape: Any, dtype: str, most: Any, expected: str):
    assert dimension_type(lowered(*shape, dtype=dtype, most=most)) == expected


def test_a_tensor_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch):
    need("PoCL")
    monkeypatch.setattr(narrow_indices, "MOST_ELEMENTS", 100)
    opencl_library()
    device = tvm.device("opencl", 0)
    code = generate(lowered(N, 10).final, target(NVIDIA), BuildOptions(), "targets.t")
    machine = tvm.relax.VirtualMachine(code, device)
    values = np.full((10, 10), -1, "float32")
    assert (machine["main"](tvm.runtime.tensor(values, device)).numpy() == 1).all()
    with pytest.raises(Exception, match="more than 2\\^31 elements; run smaller sizes"):
        machine["main"](tvm.runtime.tensor(np.zeros((11, 10), "float32"), device))
