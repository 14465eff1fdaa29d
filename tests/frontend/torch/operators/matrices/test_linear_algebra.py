"""Linear solves, inverses, determinants and factorisations of small matrices, against PyTorch."""

import numpy as np
import pytest
import torch
from torch import linalg

from tests.frontend.torch.running import Cases, Of, assert_equals_pytorch
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read
from tvmake.frontend.torch.operators.matrices.linear_algebra import LARGEST

PIVOTED = torch.tensor([[0.0, 1, 2], [1, 0, 3], [4, -3, 8]])
"""The first column's largest element is its last."""

BATCH = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(0)) + torch.eye(3)
WIDE = torch.randn(33, 33, generator=torch.Generator().manual_seed(1))
RIGHT = torch.arange(6.0).reshape(3, 2)


def equations(x):
    return linalg.solve(x, RIGHT), linalg.solve(x, torch.ones(4, 3), left=False), linalg.inv(x)


def determinants(x):
    return linalg.det(x), *linalg.slogdet(x)


def factors(x):
    lower = linalg.cholesky(x)
    by_substitution = linalg.solve_triangular(lower, RIGHT, upper=False)
    return lower, by_substitution, torch.cholesky_solve(RIGHT.expand(2, 3, 2), lower)


def triangles(x):
    factored, pivots = linalg.lu_factor(x)
    return factored, pivots, linalg.lu_solve(factored, pivots, RIGHT)


CASES = Cases(
    {
        "equations": equations,
        "determinants": determinants,
        "factors": lambda x: factors(x @ x.mT + torch.eye(3)),
        "triangles": triangles,
    },
    BATCH,
)


@pytest.mark.parametrize("name", CASES.networks)
def test_functions_of_a_batch_equal_pytorch(name):
    for output, expected in zip(CASES.outputs(name), CASES.expected(name), strict=True):
        np.testing.assert_allclose(output, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("function", "matrix"),
    [(linalg.inv, PIVOTED), (linalg.cholesky, WIDE @ WIDE.T / 33 + torch.eye(33))],
    ids=["pivots", "33 columns"],
)
def test_a_function_of_a_matrix_equals_pytorch(function, matrix):
    assert_equals_pytorch(function, matrix)


def test_a_matrix_of_many_columns_is_refused():
    program = torch.export.export(Of(linalg.inv), (torch.eye(LARGEST + 1),))
    with pytest.raises(InputError, match=r"aten\.linalg_inv\.default \(1×\)"):
        read(program, ImportOptions(source="net"))
