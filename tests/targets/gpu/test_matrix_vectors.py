"""Products of matrices with few vectors, by several threads, equal those of a single thread."""

from typing import Any

import pytest

from tests.requirements import need
from tests.targets.adreno_texture.nets import BUFFER, conv, op, tensor
from tests.targets.gpu.nets import error, kernels_by_rule
from tvmake.targets.gpu.few_rows.matrix_vectors import MatrixVectors

NVIDIA = "opencl-nvidia"


def excite(squeezed: Any, weight: Any, bias: Any, images: Any) -> Any:
    """The last layer of a squeeze-and-excite block."""
    return op.multiply(op.nn.relu(images), op.sigmoid(op.add(conv(squeezed, weight, padding=0), bias)))


KERNELS = {
    "one position": (lambda x, w: conv(x, w, padding=0), tensor(1, 144, 1, 1), tensor(6, 144, 1, 1)),
    "many rows": (lambda x, w: conv(x, w, padding=0), tensor(1, 100, 1, 1), tensor(2500, 100, 1, 1)),
    "three vectors": (lambda x, w: op.nn.relu(conv(x, w, padding=0)), tensor(3, 45, 1, 1), tensor(70, 45, 1, 1)),
    "the size of the window": (lambda x, w: conv(x, w, padding=0), tensor(2, 20, 7, 5), tensor(9, 20, 7, 5)),
    "scores of one query": (
        lambda q, k: op.einsum((q, k), "bqd,bkd->bqk"), tensor(4, 1, 64), tensor(4, 50, 64)
    ),
    "scaled images": (
        excite, tensor(1, 6, 1, 1), tensor(24, 6, 1, 1), tensor(1, 24, 1, 1), tensor(1, 24, 45, 45)
    ),
    "scaled images of a batch": (
        excite, tensor(3, 40, 1, 1), tensor(12, 40, 1, 1), tensor(1, 12, 1, 1), tensor(3, 12, 7, 7)
    ),
    "a long sum, and few scaled results": (
        excite, tensor(1, 900, 1, 1), tensor(8, 900, 1, 1), tensor(1, 8, 1, 1), tensor(1, 8, 2, 2)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [NVIDIA, BUFFER])
@pytest.mark.parametrize("what", KERNELS)
def test_sums_along_memory_are_computed_by_threads_together(what: str, name: str):
    need("PoCL")
    assert kernels_by_rule(MatrixVectors(), *KERNELS[what], name=name)
    assert error(*KERNELS[what], name=name) < 3e-6


@pytest.mark.parametrize(
    "kernel",
    [
        (op.matmul, tensor(1, 300), tensor(300, 1000)),
        (lambda x, w: conv(x, w, padding=0), tensor(4, 300, 1, 1), tensor(70, 300, 1, 1)),
        (lambda x, w: conv(x, w, padding=0), tensor(1, 8, 1, 1), tensor(70, 8, 1, 1)),
        (lambda x, w: conv(x, w, padding=3, groups=16), tensor(1, 16, 12, 12), tensor(16, 1, 7, 7)),
        (lambda x, w: conv(x, w, padding=0), tensor(1, 64, 20, 20), tensor(3, 64, 1, 1)),
    ],
    ids=["across memory", "enough vectors", "short sums", "windows", "images"],
)
def test_others_are_left_to_other_rules(kernel: Any):
    assert not kernels_by_rule(MatrixVectors(), *kernel, name=NVIDIA)
