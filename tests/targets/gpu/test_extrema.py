"""Extrema of rows by several threads equal those of a single thread."""

from typing import Any

import pytest
import tvm

from tests.requirements import need
from tests.targets.adreno_texture.nets import BUFFER, op, tensor
from tests.targets.gpu.nets import error, kernels_by_rule
from tvmake.targets.gpu.extrema import Extrema

NVIDIA = "opencl-nvidia"


def is_anywhere(data: Any) -> Any:
    """Whether a row has a positive value; PyTorch's attention tests for unmasked values that way."""
    return op.max(op.astype(op.greater(data, tvm.relax.const(0.5)), "int8"), axis=-1)


KERNELS = {
    "rows": (lambda x: op.max(x, axis=-1), tensor(6, 197, 197)),
    "one row": (op.max, tensor(3, 1000)),
    "a row that is shorter than a warp": (lambda x: op.min(x, axis=-1), tensor(700, 17)),
    "images, with prologue and epilogue": (
        lambda x: op.nn.relu(op.min(op.exp(x), axis=[2, 3], keepdims=True)), tensor(1, 50, 7, 7)
    ),
    "conditions": (is_anywhere, tensor(3000, 33)),
    "with another operand": (lambda x, y: op.multiply(op.max(x, axis=-1), y), tensor(7, 333), tensor(7)),
}  # fmt: skip


@pytest.mark.parametrize("name", [NVIDIA, BUFFER])
@pytest.mark.parametrize("what", KERNELS)
def test_extrema_along_memory_are_found_by_threads_together(what: str, name: str):
    need("PoCL")
    assert kernels_by_rule(Extrema(), *KERNELS[what], name=name)
    assert error(*KERNELS[what], name=name) < 1e-6


@pytest.mark.parametrize(
    "kernel",
    [
        (lambda x: op.max(x, axis=1), tensor(3, 1000, 4)),
        (lambda x: op.sum(x, axis=-1), tensor(30, 1000)),
        (lambda x: op.max(x, axis=-1), tensor(1000, 4)),
    ],
    ids=["across memory", "sums", "few values"],
)
def test_others_are_left_to_other_rules(kernel: Any):
    assert not kernels_by_rule(Extrema(), *kernel, name=NVIDIA)
