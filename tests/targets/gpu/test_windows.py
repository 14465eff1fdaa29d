"""Reductions over windows, with several results per thread, give the results of plain loops."""

from typing import Any

import pytest

from tests.requirements import need
from tests.targets.adreno_texture.nets import BUFFER, conv, op, tensor
from tests.targets.gpu.nets import error, kernels_by_rule
from tvmake.targets.gpu.windows import Windows

NVIDIA = "opencl-nvidia"
NEAR = 1e-6


def clipped(data: Any, weight: Any, bias: Any) -> Any:
    return op.clip(op.add(conv(data, weight, groups=48), bias), 0, 6)


KERNELS = {
    "depthwise": (clipped, tensor(1, 48, 28, 28), tensor(48, 1, 3, 3), tensor(1, 48, 1, 1)),
    "depthwise, neighbours by a thread": (
        lambda x, w: conv(x, w, groups=96), tensor(1, 96, 56, 56), tensor(96, 1, 3, 3)
    ),
    "depthwise, strided": (
        lambda x, w: conv(x, w, groups=20, strides=2), tensor(2, 20, 15, 15), tensor(20, 1, 3, 3)
    ),
    "grouped": (lambda x, w: conv(x, w, groups=4), tensor(1, 16, 12, 12), tensor(24, 4, 3, 3)),
    "largest": (lambda x: op.nn.max_pool2d(x, (3, 3), (2, 2), (1, 1)), tensor(1, 24, 29, 29)),
    "averages": (lambda x: op.nn.avg_pool2d(x, (2, 2), (2, 2)), tensor(1, 24, 30, 30)),
}  # fmt: skip


@pytest.mark.parametrize("what", KERNELS)
def test_windows_are_reduced_with_prologue_and_epilogue(what: str):
    need("PoCL")
    assert kernels_by_rule(Windows(), *KERNELS[what], name=NVIDIA)
    assert error(*KERNELS[what], name=NVIDIA) < NEAR


def test_a_phones_limits_are_kept():
    need("PoCL")
    assert error(*KERNELS["depthwise"], name=BUFFER) < NEAR


@pytest.mark.parametrize(
    "kernel", [(lambda x: op.mean(x, [2, 3]), tensor(1, 40, 64, 64)), (op.nn.softmax, tensor(3, 50, 197))]
)
def test_long_sums_are_left_to_rules_that_share_them(kernel: Any):
    assert not kernels_by_rule(Windows(), *kernel, name=NVIDIA)
