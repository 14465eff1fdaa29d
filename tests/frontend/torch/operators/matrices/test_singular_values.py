"""Singular values, eigenvalues and pseudoinverses of small matrices, against PyTorch; vectors by what they make together."""

import pytest
import torch
from torch import linalg

from tests.frontend.torch.running import Of, assert_as_pytorch_has_it
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read
from tvmake.frontend.torch.operators.matrices.singular_values import LARGEST

POINTS = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
FLAT = POINTS * torch.tensor([1.0, 1, 0])
"""Of points in a plane, one singular value is 0."""


def parts(x):
    left, values, right = linalg.svd(x, full_matrices=False)
    return values, left @ torch.diag_embed(values) @ right, left.mT @ left, right @ right.mT


def together(x):
    """What the parts make, and the large values: the small ones of columns that depend on others are rounding alone."""
    left, values, right = linalg.svd(x, full_matrices=False)
    orthogonal, upper = linalg.qr(x)
    return (
        values[..., :1] / x.abs().amax(),
        left @ torch.diag_embed(values) @ right / x.abs().amax(),
        orthogonal @ upper / x.abs().amax(),
    )


def rotation(x):
    """The best one from points to others (W. Kabsch, 1976)."""
    left, _, right = linalg.svd(x.mT @ x.roll(1, -1))
    turn = linalg.det(right.mT @ left.mT).sign()
    return right.mT @ torch.diag_embed(torch.stack([torch.ones(2), torch.ones(2), turn], -1)) @ left.mT


def eigen(x):
    values, vectors = linalg.eigh(x @ x.mT - 3 * torch.eye(5))
    return values, vectors @ torch.diag_embed(values) @ vectors.mT


CASES = {
    "parts": (parts, POINTS),
    "parts of a wide matrix without full rank": (parts, FLAT.mT),
    "rotation": (rotation, POINTS),
    "eigenvalues": (eigen, POINTS),
    "pseudoinverse": (linalg.pinv, FLAT),
    "equal columns": (together, torch.full((1, 4, 4), 1.8952608)),
    "equal columns but for rounding": (together, POINTS[:, :, :1] * torch.tensor([1.0, 1 + 1e-7, 1 - 1e-7])),
    "numbers whose squares are too small": (together, POINTS * 1e-22),
    "numbers whose squares are too large": (together, POINTS * 1e22),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_as_pytorch_has_it(name):
    assert_as_pytorch_has_it(*CASES[name])


def test_a_matrix_of_many_columns_is_refused():
    program = torch.export.export(Of(linalg.svdvals), (torch.eye(LARGEST + 1),))
    with pytest.raises(InputError, match=r"aten\._linalg_svd\.default \(1×\)"):
        read(program, ImportOptions(source="net"))
