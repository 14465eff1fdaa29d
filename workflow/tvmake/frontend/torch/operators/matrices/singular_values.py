"""Singular values and vectors, eigenvalues of symmetric matrices and pseudoinverses, of small matrices of floats.

Columns are turned in pairs until they stand at right angles to each other (M. Hestenes, 1958): every pair once in a sweep, as many
pairs at a time as do not share a column. The signs of the vectors are as they come, and may be others than PyTorch's.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from tvmake.frontend.torch.operators.matrices.linear_algebra import orthogonal_and_upper

aten = torch.ops.aten

LARGEST = 16
"""Rows or columns, whichever are fewer; each takes twenty operators a sweep."""
TALLEST = 32

SWEEPS = 7
"""After five, 8 columns are at right angles to each other within float32, after six 16."""


def _is_small(matrix: Tensor) -> bool:
    """Whether the extents are known, and the steps few."""
    if not matrix.is_floating_point() or not all(isinstance(extent, int) for extent in matrix.shape):
        return False
    return 0 < min(matrix.shape[-2:]) <= LARGEST and max(matrix.shape[-2:]) <= TALLEST


def _turned(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The columns at right angles, the largest first, the turns that make them, and their lengths: ``matrix @ turns`` are the columns."""
    height, count = matrix.shape[-2:]
    largest = matrix.abs().amax((-2, -1), keepdim=True)
    scale = torch.where(largest > 0, largest, 1.0)  # so that no square is beyond what the type holds
    matrix = matrix / scale
    turns = torch.eye(count, dtype=matrix.dtype).expand(*matrix.shape[:-2], count, count)
    both = torch.cat([matrix, turns], -2)
    half = (count + 1) // 2
    if count % 2:
        both = torch.cat([both, torch.zeros_like(both[..., :1])], -1)  # which is at right angles to all
    for _ in range(SWEEPS * (2 * half - 1)):
        # A tournament: the first stays, the others move on by one place, so that each meets each.
        left, right = both[..., :half], both[..., half:].flip(-1)
        one, other = left[..., :height, :], right[..., :height, :]
        product = (one * other).sum(-2, keepdim=True)
        gap = (other * other).sum(-2, keepdim=True) - (one * one).sum(-2, keepdim=True)
        ratio = gap / (2 * torch.where(product == 0, 1.0, product))
        tangent = torch.where(ratio < 0, -1.0, 1.0) / (ratio.abs() + (1 + ratio * ratio).sqrt())
        tangent = torch.where(product == 0, 0.0, tangent)
        cosine = (1 + tangent * tangent).rsqrt()
        sine = tangent * cosine
        left, right = cosine * left - sine * right, (sine * left + cosine * right).flip(-1)
        both = torch.cat([left[..., :1], right[..., -1:], left[..., 1:], right[..., :-1]], -1)
    columns, turns = both[..., :height, :count], both[..., height:, :count]
    lengths, order = (columns * columns).sum(-2).sqrt().sort(-1, descending=True)
    columns, turns = (one.gather(-1, order.unsqueeze(-2).expand(one.shape)) for one in (columns, turns))
    return columns * scale, turns, lengths * scale.squeeze(-1)


def _decomposed(matrix: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: Any = None) -> Any:
    if not _is_small(matrix):
        return NotImplemented
    is_wide = matrix.shape[-2] < matrix.shape[-1]
    columns, turns, values = _turned(matrix.mT if is_wide else matrix)
    if not compute_uv:
        return torch.zeros(0, dtype=matrix.dtype), values, torch.zeros(0, dtype=matrix.dtype)
    # Vectors of length 0 have no direction: those of a basis stand for them.
    basis, upper = orthogonal_and_upper(columns, "complete" if full_matrices else "reduced")
    signs = torch.where(upper.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0)
    count = values.shape[-1]
    left = torch.cat([basis[..., :count] * signs.unsqueeze(-2), basis[..., count:]], -1)
    return (turns, values, left.mT) if is_wide else (left, values, turns.mT)


def _eigen(matrix: Tensor, lower: str = "L", compute_v: bool = True) -> Any:
    """Eigenvalues, the least first: of a matrix that is moved so far that none is negative, they are its singular values."""
    if not _is_small(matrix) or matrix.shape[-1] != matrix.shape[-2]:
        return NotImplemented
    half = matrix.tril() if lower == "L" else matrix.triu()
    matrix = half + half.mT - torch.diag_embed(matrix.diagonal(dim1=-2, dim2=-1))
    moved = matrix.abs().sum(-1).amax(-1)
    unit = torch.eye(matrix.shape[-1], dtype=matrix.dtype)
    _, vectors, values = _turned(matrix + moved[..., None, None] * unit)
    values = (values - moved.unsqueeze(-1)).flip(-1)
    return values, vectors.flip(-1) if compute_v else torch.zeros(0, dtype=matrix.dtype)


def _pseudoinverse(
    matrix: Tensor, *, atol: Tensor | None = None, rtol: Tensor | None = None, hermitian: bool = False
) -> Any:
    if not _is_small(matrix):
        return NotImplemented
    left, values, right = _decomposed(matrix)
    share = torch.finfo(matrix.dtype).eps * max(matrix.shape[-2:]) if rtol is None and atol is None else rtol
    limit = values[..., :1] * (0.0 if share is None else share)
    limit = limit if atol is None else torch.maximum(limit, atol)
    inverse = torch.where(values > limit, 1 / torch.where(values > limit, values, 1.0), 0.0)
    return right.mT @ (inverse.unsqueeze(-1) * left.mT)


DECOMPOSITIONS: Mapping[torch._ops.OpOverload, Callable[..., Any]] = {
    aten._linalg_svd.default: _decomposed,
    aten._linalg_eigh.default: _eigen,
    aten.linalg_pinv.atol_rtol_tensor: _pseudoinverse,
}
