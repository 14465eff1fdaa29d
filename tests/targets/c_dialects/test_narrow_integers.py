"""8-bit and 16-bit integers in OpenCL kernels keep their width."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm

from tests.requirements import need
from tvmake.config.target import TargetConfig
from tvmake.native.backend import opencl_library
from tvmake.targets.backends import kernel_pipeline
from tvmake.targets.resolve import tvm_target

from tvm import te  # isort: skip

EXTENT = 64

KERNELS: dict[str, Callable[[Any, Any], Any]] = {
    "floor division": tvm.tirx.floordiv,
    "floor remainder": tvm.tirx.floormod,
    "sum that wraps, divided": lambda x, y: tvm.tirx.truncdiv(x + y, y),
    "product that wraps, compared": lambda x, y: tvm.tirx.Select(x * y < y, x, y - x),
    "shift that wraps, shifted back": lambda x, y: (x << y) >> y,
}


def scheduled(kernel: Callable[[Any, Any], Any], dtype: str) -> "tvm.IRModule":
    """A kernel with one thread per element."""
    x, y = (te.placeholder((EXTENT,), dtype, name=name) for name in "xy")
    result = te.compute((EXTENT,), lambda place: kernel(x[place], y[place]), name="result")
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": te.create_prim_func([x, y, result])}))
    (loop,) = schedule.get_loops(schedule.get_sblock("result"))
    schedule.bind(loop, "threadIdx.x")
    return schedule.mod


def expected(name: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """NumPy's result, which wraps."""
    with np.errstate(over="ignore"):
        match name:
            case "floor division":
                return x // y
            case "floor remainder":
                return x % y
            case "sum that wraps, divided":
                return np.trunc((x + y) / y.astype("float64")).astype(x.dtype)
            case "product that wraps, compared":
                return np.where(x * y < y, x, y - x)
            case _:
                return (x << y) >> y


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("name", KERNELS)
def test_results_wrap_and_compile(name: str, dtype: str):
    need("PoCL")
    opencl_library()
    target = tvm_target(TargetConfig(kind="opencl"), "targets.t")
    x = np.linspace(np.iinfo(dtype).min, np.iinfo(dtype).max, EXTENT).astype(dtype)
    y = np.tile(np.array([1, 3, 5, 7], dtype), EXTENT // 4)
    module = tvm.tirx.build(scheduled(KERNELS[name], dtype), target=target, pipeline=kernel_pipeline(target))
    device = tvm.device("opencl", 0)
    found = tvm.runtime.tensor(np.zeros_like(x), device)
    module["main"](tvm.runtime.tensor(x, device), tvm.runtime.tensor(y, device), found)
    assert np.array_equal(found.numpy(), expected(name, x, y))
