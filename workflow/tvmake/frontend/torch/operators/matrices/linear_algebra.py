"""Solutions of linear equations, inverses, determinants and factors of small matrices, step by step.

Every function takes matrices ``[..., rows, columns]`` of floats, and makes one step for each column: what an algorithm of LAPACK
loops over is written out, as operators that every target has. Beyond ``LARGEST`` columns, and for open extents, the operator
stays as it is, and is refused. A matrix without an inverse, or that is not positive definite, gives values that are not finite, or
arbitrary ones, where PyTorch raises an error. (G. Golub and C. Van Loan, "Matrix Computations", 4th edition, 2013, chapters 3 to 5.)
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

LARGEST = 128
"""Columns of a matrix; the operators of a step are about fifteen, and a hundred steps take half a minute to build."""


def _is_known(*matrices: Tensor) -> bool:
    """Whether they are of floats, and their extents known."""
    return all(one.is_floating_point() and all(isinstance(extent, int) for extent in one.shape) for one in matrices)


def _is_small(*matrices: Tensor) -> bool:
    """Whether, besides, the steps are few."""
    return _is_known(*matrices) and all(one.shape[-1] <= LARGEST for one in matrices)


def _unit(count: int, place: int) -> Tensor:
    return torch.arange(count) == place


def _eliminated(matrix: Tensor, right: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gauss's and Jordan's elimination with the largest pivot of each column.

    Returns:
        The pivots ``[..., columns]``, ``right`` multiplied by the inverse, and the sign of the rows' permutation ``[...]``.
    """
    count = matrix.shape[-1]
    both = torch.cat([matrix, right], -1)
    pivots, sign = [], torch.ones(matrix.shape[:-2], dtype=matrix.dtype)
    for step in range(count):
        place = both[..., step:, step].abs().argmax(-1, keepdim=True) + step
        is_chosen = (torch.arange(count) == place).unsqueeze(-1)
        chosen = torch.where(is_chosen, both, 0.0).sum(-2, keepdim=True)
        is_here = _unit(count, step).unsqueeze(-1)
        both = torch.where(is_here, chosen, torch.where(is_chosen, both[..., step : step + 1, :], both))
        sign = torch.where(place.squeeze(-1) == step, sign, -sign)
        pivot = chosen[..., step : step + 1]
        pivots.append(pivot[..., 0, 0])
        row = chosen / pivot
        both = torch.where(is_here, row, both - both[..., step : step + 1] * row)
    return torch.stack(pivots, -1), both[..., count:], sign


def _factors(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Triangular factors in one matrix, with the largest pivot of each column.

    Returns:
        The factors ``[..., rows, columns]``, each step's pivot's row, from 1 on, int32, and the rows' order in the end.
    """
    height, width = matrix.shape[-2:]
    rest, order = matrix, torch.arange(height).expand(matrix.shape[:-1]).unsqueeze(-1)
    pivots = []
    for step in range(min(height, width)):
        place = rest[..., step:, step].abs().argmax(-1, keepdim=True) + step
        pivots.append(place + 1)
        is_chosen, is_here = (torch.arange(height) == place).unsqueeze(-1), _unit(height, step).unsqueeze(-1)
        swapped = []
        for rows in (rest, order):
            chosen = torch.where(is_chosen, rows, 0).sum(-2, keepdim=True)
            swapped.append(torch.where(is_here, chosen, torch.where(is_chosen, rows[..., step : step + 1, :], rows)))
        rest, order = swapped
        is_below, is_right = (torch.arange(height) > step).unsqueeze(-1), torch.arange(width) > step
        pivot = rest[..., step : step + 1, step : step + 1]
        factors = torch.where(is_below, rest[..., step : step + 1] / torch.where(pivot == 0, 1.0, pivot), 0.0)
        rest = rest - torch.where(is_right, factors * rest[..., step : step + 1, :], 0.0)
        rest = torch.where(is_below & _unit(width, step), factors, rest)
    return rest, torch.cat(pivots, -1).to(torch.int32), order.squeeze(-1)


def _lower_and_upper(factors: Tensor) -> tuple[Tensor, Tensor]:
    height, width = factors.shape[-2:]
    least = min(height, width)
    unit = torch.eye(height, least, dtype=factors.dtype)
    return factors[..., :least].tril(-1) + unit, factors[..., :least, :].triu()


def _factored(matrix: Tensor, *, pivot: bool = True) -> Any:
    if not pivot or not _is_small(matrix, matrix.mT):
        return NotImplemented
    factors, pivots, _ = _factors(matrix)
    return factors, pivots


def _exchanged(rows: Tensor, pivots: Tensor) -> Tensor:
    """Rows after the exchanges of a factorisation."""
    count = rows.shape[-2]
    for step in range(pivots.shape[-1]):
        is_chosen = (torch.arange(count) == pivots[..., step : step + 1] - 1).unsqueeze(-1)
        chosen = torch.where(is_chosen, rows, 0).sum(-2, keepdim=True)
        others = torch.where(is_chosen, rows[..., step : step + 1, :], rows)
        rows = torch.where(_unit(count, step).unsqueeze(-1), chosen, others)
    return rows


def _solved_by_factors(
    factors: Tensor, pivots: Tensor, right: Tensor, *, left: bool = True, adjoint: bool = False
) -> Any:
    if not left or adjoint or not _is_small(factors):
        return NotImplemented
    lower, upper = _lower_and_upper(factors)
    right = right.expand(*torch.broadcast_shapes(factors.shape[:-2], right.shape[:-2]), *right.shape[-2:])
    first = _triangular(lower, _exchanged(right, pivots), upper=False, unitriangular=True)
    return _triangular(upper, first, upper=True)


def _solved(matrix: Tensor, right: Tensor, *, left: bool = True) -> Any:
    if not _is_small(matrix):
        return NotImplemented
    is_vector = right.ndim == 1 or (right.ndim == matrix.ndim - 1 and right.shape == matrix.shape[:-1])
    right = right.unsqueeze(-1) if is_vector else right
    if not left:
        matrix, right = matrix.mT, right.mT
    batch = torch.broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
    matrix, right = (one.expand(*batch, *one.shape[-2:]) for one in (matrix, right))
    found = _eliminated(matrix, right)[1]
    found = found if left else found.mT
    return found.squeeze(-1) if is_vector else found


def _solve(matrix: Tensor, right: Tensor, *, left: bool = True) -> Any:
    return _solved(matrix, right, left=left)


def _inverse(matrix: Tensor) -> Any:
    if not _is_small(matrix):
        return NotImplemented
    return _solved(matrix, torch.eye(matrix.shape[-1], dtype=matrix.dtype).expand(matrix.shape))


def _determinant(matrix: Tensor) -> Any:
    if not _is_small(matrix):
        return NotImplemented
    pivots, _, sign = _eliminated(matrix, matrix[..., :0])
    return pivots.prod(-1) * sign


def _sign_and_logarithm(matrix: Tensor) -> Any:
    if not _is_small(matrix):
        return NotImplemented
    pivots, _, sign = _eliminated(matrix, matrix[..., :0])
    return pivots.sign().prod(-1) * sign, pivots.abs().log().sum(-1)


def _logarithm(matrix: Tensor) -> Any:
    if not _is_small(matrix):
        return NotImplemented
    sign, logarithm = _sign_and_logarithm(matrix)
    return torch.where(sign < 0, torch.nan, logarithm)


def _cholesky(matrix: Tensor, upper: bool = False) -> Any:
    if not _is_small(matrix):
        return NotImplemented
    count, columns = matrix.shape[-1], []
    rest = matrix.mT if upper else matrix
    for step in range(count):
        column = rest[..., step : step + 1] / rest[..., step : step + 1, step : step + 1].sqrt()
        column = torch.where((torch.arange(count) >= step).unsqueeze(-1), column, 0.0)
        columns.append(column)
        rest = rest - column * column.mT
    found = torch.cat(columns, -1)
    return found.mT if upper else found


def _triangular(matrix: Tensor, right: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    """By substitution; the other triangle is not read."""
    if not _is_small(matrix):
        return NotImplemented
    if not left:
        matrix, right, upper = matrix.mT, right.mT, not upper
    count = matrix.shape[-1]
    rest = right.expand(*torch.broadcast_shapes(matrix.shape[:-2], right.shape[:-2]), *right.shape[-2:])
    rows: dict[int, Tensor] = {}
    for step in reversed(range(count)) if upper else range(count):
        row = rest[..., step : step + 1, :]
        row = row if unitriangular else row / matrix[..., step : step + 1, step : step + 1]
        rows[step] = row
        rest = rest - matrix[..., step : step + 1] * row
    found = torch.cat([rows[step] for step in range(count)], -2)
    return found if left else found.mT


def _cholesky_solve(right: Tensor, factor: Tensor, upper: bool = False) -> Any:
    if not _is_small(factor):
        return NotImplemented
    lower = factor.mT if upper else factor
    return _triangular(lower.mT, _triangular(lower, right, upper=False), upper=True)


def _with_report(compute: Callable[..., Any]) -> Callable[..., Any]:
    """The form with one more result, which is 0 for matrices that have an answer."""

    def computed(matrix: Tensor, *others: Any, check_errors: bool = False, **named: Any) -> Any:
        found = compute(matrix, *others, **named)
        if found is NotImplemented:
            return found
        results = found if isinstance(found, tuple) else (found,)
        return *results, torch.zeros(matrix.shape[:-2], dtype=torch.int32)

    return computed


def _with_factors(compute: Callable[..., Any], has_report: bool = False) -> Callable[..., Any]:
    """The form that also gives what PyTorch differentiates by."""

    def computed(matrix: Tensor, *others: Any, check_errors: bool = False, **named: Any) -> Any:
        found, factors = compute(matrix, *others, **named), _factored(matrix)
        if found is NotImplemented or factors is NotImplemented:
            return NotImplemented
        results = found if isinstance(found, tuple) else (found,)
        return *results, *factors, *([torch.zeros(matrix.shape[:-2], dtype=torch.int32)] if has_report else [])

    return computed


def _checked(*_: Any, **__: Any) -> None:
    """The report is of no use in a compiled network, which cannot raise an error."""


DECOMPOSITIONS: Mapping[torch._ops.OpOverload, Callable[..., Any]] = {
    aten.linalg_inv.default: _inverse,
    aten.inverse.default: _inverse,
    aten.linalg_inv_ex.default: _with_report(_inverse),
    aten.linalg_solve.default: _solve,
    aten.linalg_solve_ex.default: _with_report(_solve),
    aten._linalg_solve_ex.default: _with_factors(_solve, has_report=True),
    aten._linalg_det.default: _with_factors(_determinant),
    aten._linalg_slogdet.default: _with_factors(_sign_and_logarithm),
    aten.linalg_lu_factor.default: _factored,
    aten.linalg_lu_factor_ex.default: _with_report(_factored),
    aten.linalg_lu_solve.default: _solved_by_factors,
    aten.linalg_det.default: _determinant,
    aten.det.default: _determinant,
    aten.linalg_slogdet.default: _sign_and_logarithm,
    aten.slogdet.default: _sign_and_logarithm,
    aten.logdet.default: _logarithm,
    aten.linalg_cholesky.default: lambda matrix, *, upper=False: _cholesky(matrix, upper),
    aten.linalg_cholesky_ex.default: _with_report(_cholesky),
    aten.cholesky.default: _cholesky,
    aten.cholesky_solve.default: _cholesky_solve,
    aten.linalg_solve_triangular.default: _triangular,
    aten._linalg_check_errors.default: _checked,
}
