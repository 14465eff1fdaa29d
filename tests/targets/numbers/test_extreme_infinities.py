"""Extrema of infinities, and their indices."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import tvm
from torch import Tensor

from tests.frontend.torch.running import as_built
from tests.requirements import need
from tests.tune.graphs import graph
from tvmake.codegen.link import generate
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import BuildOptions, PassOptions
from tvmake.config.target import TargetConfig
from tvmake.native.backend import opencl_library
from tvmake.targets.resolve import tvm_target

NOTHING = torch.full((3, 40), -torch.inf)

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "maximum": lambda x: x.amax(1),
    "minimum": lambda x: (-x).amin(0),
    "pooling": lambda x: F.max_pool1d(x, 3, 1, 1),
    "pooling with indices": lambda x: F.max_pool2d(x.reshape(1, 1, 12, 10), 3, 2, 1),
    "index": lambda x: x.argmax(1),
    "index of a minimum": lambda x: (-x).min(0).indices,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_extrema_of_nothing_but_infinities(name: str):
    np.testing.assert_array_equal(as_built(FUNCTIONS[name], NOTHING), FUNCTIONS[name](NOTHING).numpy())


def test_a_smallest_number_that_the_network_states_stays():
    smallest = torch.finfo(torch.float32).min
    np.testing.assert_array_equal(as_built(lambda x: F.pad(x, (1, 1), value=smallest).amax(1), NOTHING), [smallest] * 3)


@pytest.mark.parametrize(("extent", "expected"), [(3, -np.inf), (300, None)])
def test_opencl_builds_reductions_of_threads_and_of_one(extent: int, expected: float | None):
    need("PoCL")
    opencl_library()
    target = tvm_target(TargetConfig(kind="opencl"), "targets.t")
    made = lower(graph(lambda x: tvm.relax.op.nn.max_pool2d(x, (extent, 1)), ((1, 4, 300, 5), "float32")), target, [], PassOptions(), 1)  # fmt: skip
    assert generate(made.final, target, BuildOptions(), "targets.t")
    if expected is not None:
        device = tvm.device("opencl", 0)
        machine = tvm.relax.VirtualMachine(generate(made.final, target, BuildOptions(), "targets.t"), device)
        found: Any = machine["main"](tvm.runtime.tensor(np.full((1, 4, 300, 5), -np.inf, "float32"), device))
        assert (found.numpy() == expected).all()
    softmax = lower(graph(lambda x: tvm.relax.op.nn.softmax(x), ((4, extent), "float32")), target, [], PassOptions(), 1)
    assert generate(softmax.final, target, BuildOptions(), "targets.t")
