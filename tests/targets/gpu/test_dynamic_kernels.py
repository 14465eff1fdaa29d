"""Kernels with dynamic dimensions, scheduled by rules for GPUs, are right at every size."""

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import tvm

from tests.requirements import need
from tests.targets.adreno_texture.nets import op, target
from tests.targets.cpu.schedules.dynamic_nets import Case, DynamicNetwork, error, tensor
from tests.targets.cpu.schedules.test_dynamic_convolutions import pools, same
from tests.targets.cpu.schedules.test_dynamic_matmuls import linear, linear_of_numpy, scores, scores_of_numpy
from tests.targets.cpu.schedules.test_dynamic_rows import norm, reduction
from tvmake.native.backend import opencl_library
from tvmake.targets.kernels.scheduled_kernel import is_scheduled

NEAR = 3e-6
"""Sums are added in another order."""

MATMULS = {
    "rows from batch and length": Case(linear, linear_of_numpy, [tensor("b", "n", 40)], [tensor(40, 48), tensor(48)]),
    "columns beside rows": Case(scores, scores_of_numpy, [tensor("b", 2, "n", 16), tensor("b", 2, "m", 16)]),
    "sum beside rows": Case(op.matmul, np.matmul, [tensor("b", 2, "n", "m"), tensor("b", 2, "m", 20)]),
}
IMAGES = {
    # 9 * 16 columns of an image and tiles of 32 have a common divisor.
    "convolution of a batch": Case(
        lambda x, weight: op.nn.conv2d(x, weight, padding=1),
        lambda x, weight: torch.nn.functional.conv2d(torch.from_numpy(x), torch.from_numpy(weight), padding=1),
        [tensor("b", 7, 9, 16)],
        [tensor(20, 7, 3, 3)],
    ),
    "depthwise": same(24, 24, 3, groups=24)["batch"],
    "pooling": pools(op.nn.max_pool2d, torch.nn.functional.max_pool2d)["batch"],
}
ROWS = {
    "layer norm": norm("b", "n", 33),
    "maximum": reduction("max", [2], "b", 3, "n"),
}


def excite(squeezed: Any, images: Any, weight: Any) -> Any:
    """The last layer of a squeeze-and-excite block."""
    return op.multiply(images, op.sigmoid(op.nn.conv2d(squeezed, weight)))


def excite_by_torch(squeezed: Any, images: Any, weight: Any) -> Any:
    by_torch = torch.nn.functional.conv2d(torch.from_numpy(squeezed), torch.from_numpy(weight))
    return torch.from_numpy(images) * torch.sigmoid(by_torch)


VECTORS = {
    "single positions": Case(
        op.nn.conv2d,
        lambda x, weight: torch.nn.functional.conv2d(torch.from_numpy(x), torch.from_numpy(weight)),
        [tensor("b", 40, 1, 1)],
        [tensor(70, 40, 1, 1)],
    ),
    "scaled images": Case(
        excite, excite_by_torch, [tensor("b", 6, 1, 1), tensor("b", 24, 9, 16)], [tensor(24, 6, 1, 1)]
    ),
    "scaled images of any size": Case(
        excite, excite_by_torch, [tensor("b", 6, 1, 1), tensor("b", 24, "h", "w")], [tensor(24, 6, 1, 1)]
    ),
}
GROUPS = {"matmuls": MATMULS, "images": IMAGES, "vectors": VECTORS, "rows": ROWS}
BY_TVM = {"matmuls": {"transpose"}, "rows": {"layer_norm"}, "vectors": {"fused_conv2d1_tir_sigmoid_multiply1"}}
"""Kernels that TVM's rules schedule, also with static dimensions."""

SIZES = [(1, 1, 1), (1, 5, 7), (2, 17, 3), (3, 33, 34), (5, 1, 64), (2, 61, 97)]
"""Batch and two other dimensions: single elements, less than a tile, and one more."""


@cache
def network(group: str) -> DynamicNetwork:
    opencl_library()
    return DynamicNetwork(GROUPS[group], target("opencl-nvidia"), device=lambda: tvm.device("opencl", 0))


@pytest.mark.parametrize("group", GROUPS)
def test_kernels_with_dynamic_dimensions_are_right_at_every_size(group: str):
    need("PoCL")
    for b, n, m in SIZES:
        results = network(group).results(b=b, n=n, m=m, h=n, w=m)
        assert {name: far for name, pair in results.items() if (far := error(*pair)) > NEAR} == {}, (b, n, m)


@pytest.mark.parametrize(("b", "n", "m"), [(0, 3, 4), (2, 0, 3), (2, 3, 0)])
def test_matmuls_may_be_empty(b: int, n: int, m: int):
    need("PoCL")
    results = network("matmuls").results(b=b, n=n, m=m)
    assert max(error(*pair) for pair in results.values()) < NEAR


@pytest.mark.parametrize("group", GROUPS)
def test_rules_schedule_the_kernels_that_they_schedule_with_static_dimensions(group: str):
    need("PoCL")
    assert {name for name, kernel in network(group).kernels.items() if not is_scheduled(kernel)} == BY_TVM.get(
        group, set()
    )
