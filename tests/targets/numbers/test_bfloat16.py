"""Conversions to bfloat16 between operators round, as PyTorch's do."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import tvm
from torch import Tensor

from tests.frontend.torch.running import as_built
from tests.requirements import need
from tvmake.config.target import TargetConfig
from tvmake.native.backend import opencl_library
from tvmake.targets.backends import kernel_pipeline
from tvmake.targets.resolve import tvm_target

EDGES = torch.tensor([torch.nan, torch.inf, -torch.inf, 3.4e38, 1.00390625, 1.01171875])
VALUES = torch.cat([torch.linspace(-9, 9, 58), EDGES])


def there_and_back() -> Any:
    """A kernel that converts each value to bfloat16 and back."""
    x = tvm.te.placeholder((64,), name="x")
    result = tvm.te.compute((64,), lambda i: x[i].astype("bfloat16").astype("float32"), name="result")
    return tvm.te.create_prim_func([x, result])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.bfloat16().float(),
        lambda x: ((x.bfloat16().float() + 1.1).bfloat16().float() * 0.7).bfloat16().float(),
        lambda x: x.half().float(),
    ],
    ids=["there and back", "several times", "half"],
)
def test_what_is_converted_is_rounded(function: Callable[[Tensor], Tensor]):
    np.testing.assert_array_equal(as_built(function, VALUES), function(VALUES).numpy())


def test_opencl_rounds():
    need("PoCL")
    opencl_library()
    target = tvm_target(TargetConfig(kind="opencl"), "targets.t")
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": there_and_back()}))
    (loop,) = schedule.get_loops(schedule.get_sblock("result"))
    schedule.bind(loop, "threadIdx.x")
    built = tvm.tirx.build(schedule.mod, target=target, pipeline=kernel_pipeline(target))
    device = tvm.device("opencl", 0)
    found = tvm.runtime.tensor(np.zeros(64, "float32"), device)
    built["main"](tvm.runtime.tensor(VALUES.numpy(), device), found)
    np.testing.assert_array_equal(found.numpy(), VALUES.bfloat16().float().numpy())
