"""Products of few vectors with matrices whose results are contiguous equal those of a single thread."""

from typing import Any

import pytest

from tests.requirements import need
from tests.targets.adreno_texture.nets import BUFFER, op, target, tensor
from tests.targets.gpu.nets import error, kernels_by_rule
from tests.tune.dynamic import dim
from tests.tune.graphs import kernel
from tvmake.targets.backends import backend_of
from tvmake.targets.gpu.few_rows.vector_matrices import VectorMatrices

NVIDIA = "opencl-nvidia"

KERNELS = {
    "one row": (op.matmul, tensor(1, 256), tensor(256, 96)),
    "columns that no work group divides": (lambda x, w: op.nn.relu(op.matmul(x, w)), tensor(1, 512), tensor(512, 1001)),
    "three rows": (lambda x, w, b: op.add(op.matmul(x, w), b), tensor(3, 384), tensor(384, 132), tensor(132)),
    "batches of one row": (op.matmul, tensor(2, 1, 128), tensor(2, 128, 72)),
    "many columns": (op.matmul, tensor(1, 64), tensor(64, 9000)),
}


@pytest.mark.parametrize("name", [NVIDIA, BUFFER])
@pytest.mark.parametrize("what", KERNELS)
def test_sums_of_contiguous_results_are_computed_by_threads_together(what: str, name: str):
    need("PoCL")
    assert kernels_by_rule(VectorMatrices(), *KERNELS[what], name=name)
    assert error(*KERNELS[what], name=name) < 3e-6


@pytest.mark.parametrize(
    "inputs",
    [
        (tensor(4, 256), tensor(256, 96)),
        (tensor(1, 32), tensor(32, 96)),
        (tensor(1, 256), tensor(256, 16)),
        (tensor(1, 253), tensor(253, 96)),
    ],
    ids=["enough rows", "short sums", "few columns", "sums that no number of threads divides"],
)
def test_others_are_left_to_other_rules(inputs: Any):
    assert not kernels_by_rule(VectorMatrices(), op.matmul, *inputs, name=NVIDIA)


def test_work_groups_are_narrower_if_there_would_be_too_few():
    """About two work groups per core keep memory busy."""
    chosen = {}
    for columns in (4096, 11008):
        function = kernel(op.matmul, ((1, 4096), "float16"), ((4096, columns), "float16"), target=target("cuda-sm90"))
        chosen[columns] = VectorMatrices().choose(function, target("cuda-sm90")).parameters
    assert chosen == {4096: (8, 2, 32), 11008: (8, 4, 32)}


def test_a_dynamic_number_of_rows_has_code_for_few():
    nvidia = target(NVIDIA)
    function = kernel(op.matmul, ((dim("n"), 384), "float32"), ((384, 1536), "float32"), target=nvidia)
    ranges, _ = next(backend_of(nvidia).ranged_kernels(function, nvidia, [{"n": 1}, {"n": 64}]))
    assert [(part.largest, part.rule) for part in ranges][:2] == [(3, "VectorMatrices"), (12, "Products")]
