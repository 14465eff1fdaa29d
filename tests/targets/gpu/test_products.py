"""Tiled matmuls and convolutions give the results of plain loops."""

from typing import Any

import pytest

from tests.requirements import need
from tests.targets.adreno_texture.nets import BUFFER, conv, op, tensor
from tests.targets.gpu.nets import error, kernels_by_rule
from tvmake.targets.gpu.products import Products

NVIDIA = "opencl-nvidia"
NEAR = 3e-6
"""Sums are added in another order."""


def residual(data: Any, weight: Any, bias: Any) -> Any:
    return op.nn.relu(op.add(op.add(conv(data, weight), bias), data))


def gelu(data: Any, weight: Any) -> Any:
    return op.nn.gelu(op.matmul(data, weight))


KERNELS = {
    "convolution": (conv, tensor(1, 16, 14, 14), tensor(32, 16, 3, 3)),
    "a long sum, shared by threads": (conv, tensor(1, 160, 7, 7), tensor(48, 160, 3, 3)),
    "a window of one": (lambda x, w: conv(x, w, padding=0), tensor(1, 96, 7, 7), tensor(40, 96, 1, 1)),
    "a prime of channels": (conv, tensor(1, 7, 13, 11), tensor(37, 7, 3, 3)),
    "images": (lambda x, w: conv(x, w, strides=2, padding=3), tensor(1, 3, 31, 33), tensor(64, 3, 7, 7)),
    "dilated": (lambda x, w: conv(x, w, dilation=2, padding=2), tensor(1, 8, 10, 10), tensor(8, 8, 3, 3)),
    "a batch": (conv, tensor(3, 8, 7, 7), tensor(16, 8, 3, 3)),
    "a residual": (residual, tensor(1, 32, 14, 14), tensor(32, 32, 3, 3), tensor(1, 32, 1, 1)),
    "transposed": (
        lambda x, w: op.nn.conv2d_transpose(x, w, strides=2, padding=1), tensor(1, 8, 7, 7), tensor(8, 12, 4, 4)
    ),
    "channels last": (
        lambda x, w: op.nn.conv2d(x, w, padding=1, data_layout="NHWC", kernel_layout="HWIO"),
        tensor(1, 9, 9, 20), tensor(3, 3, 20, 24),
    ),
    "volumes": (lambda x, w: op.nn.conv3d(x, w), tensor(1, 4, 6, 7, 8), tensor(8, 4, 3, 3, 3)),
    "a product": (op.matmul, tensor(197, 61), tensor(61, 193)),
    "a product and what follows": (gelu, tensor(40, 64), tensor(64, 72)),
    "a product with transposed weights": (
        lambda x, w: op.matmul(x, op.permute_dims(w)), tensor(17, 40), tensor(257, 40)
    ),
    "products of a batch": (op.matmul, tensor(3, 50, 32), tensor(3, 32, 50)),
    "a product with two rows": (op.matmul, tensor(2, 300), tensor(300, 1000)),
    "a convolution to three channels": (
        lambda x, w: conv(x, w, padding=0), tensor(1, 100, 9, 7), tensor(3, 100, 1, 1)
    ),
    "a product of a matrix with itself": (lambda x: op.matmul(x, x), tensor(37, 37)),
    "integers": (op.matmul, tensor(20, 30, dtype="int32"), tensor(30, 40, dtype="int32")),
}  # fmt: skip


@pytest.mark.parametrize("what", KERNELS)
def test_kernels_with_one_matmul_are_tiled(what: str):
    need("PoCL")
    assert kernels_by_rule(Products(), *KERNELS[what], name=NVIDIA)
    assert error(*KERNELS[what], name=NVIDIA) < NEAR


@pytest.mark.parametrize("what", ["a residual", "a long sum, shared by threads", "a product"])
def test_a_phones_limits_are_kept(what: str):
    need("PoCL")
    assert kernels_by_rule(Products(), *KERNELS[what], name=BUFFER)
    assert error(*KERNELS[what], name=BUFFER) < NEAR


@pytest.mark.parametrize(
    "kernel",
    [
        (lambda x, w: conv(x, w, groups=16), tensor(1, 16, 12, 12), tensor(16, 1, 3, 3)),
        (op.matmul, tensor(1, 300), tensor(300, 1000)),
        (op.nn.softmax, tensor(3, 50, 197)),
    ],
)
def test_other_kernels_are_left_to_other_rules(kernel: Any):
    expression, *inputs = kernel
    assert not kernels_by_rule(Products(), expression, *inputs, name=NVIDIA)
