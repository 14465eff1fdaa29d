"""Decompose linear solves, inverses, determinants and factorisations of small matrices.

All functions take floating-point matrices ``[..., rows, columns]``. The loop of the LAPACK algorithm is unrolled, with
one step for each column, into operators that all targets support. Operators on more than ``LARGEST`` columns or on
dynamic dimensions are not decomposed, and are refused. PyTorch raises an error for singular matrices, or those that
are not positive definite; here the results are not finite or arbitrary. (G. Golub and C. Van Loan, "Matrix
Computations", 4th edition, 2013, chapters 3 to 5.)
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

LARGEST = 128
"""Maximum number of columns. A step has about fifteen operators, and a hundred steps take half a minute to build."""


def _has_fixed_shape(*matrices: Tensor) -> bool:
    """Whether matrices are floating-point with fixed shapes."""
    return all(
        matrix.is_floating_point() and all(isinstance(extent, int) for extent in matrix.shape) for matrix in matrices
    )


def _is_small(*matrices: Tensor) -> bool:
    """Whether matrices are also within ``LARGEST``."""
    return _has_fixed_shape(*matrices) and all(matrix.shape[-1] <= LARGEST for matrix in matrices)


def _one_hot(count: int, index: int) -> Tensor:
    return torch.arange(count) == index


def _eliminate(matrix: Tensor, right: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gauss-Jordan elimination with partial pivoting.

    Returns:
        The pivots ``[..., columns]``, ``right`` multiplied by the inverse, and the sign of the row permutation ``[...]``.
    """
    count = matrix.shape[-1]
    both = torch.cat([matrix, right], -1)
    pivots, sign = [], torch.ones(matrix.shape[:-2], dtype=matrix.dtype)
    for step in range(count):
        index = both[..., step:, step].abs().argmax(-1, keepdim=True) + step
        is_pivot_row = (torch.arange(count) == index).unsqueeze(-1)
        pivot_row = torch.where(is_pivot_row, both, 0.0).sum(-2, keepdim=True)
        is_step_row = _one_hot(count, step).unsqueeze(-1)
        both = torch.where(is_step_row, pivot_row, torch.where(is_pivot_row, both[..., step : step + 1, :], both))
        sign = torch.where(index.squeeze(-1) == step, sign, -sign)
        pivot = pivot_row[..., step : step + 1]
        pivots.append(pivot[..., 0, 0])
        row = pivot_row / pivot
        both = torch.where(is_step_row, row, both - both[..., step : step + 1] * row)
    return torch.stack(pivots, -1), both[..., count:], sign


def _lu_factors(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """LU factorisation with partial pivoting, with both factors in one matrix.

    Returns:
        The factors ``[..., rows, columns]``, the pivot row of each step (from 1, int32), and the final order of the rows.
    """
    height, width = matrix.shape[-2:]
    rest, order = matrix, torch.arange(height).expand(matrix.shape[:-1]).unsqueeze(-1)
    pivots = []
    for step in range(min(height, width)):
        index = rest[..., step:, step].abs().argmax(-1, keepdim=True) + step
        pivots.append(index + 1)
        is_pivot, is_step = (torch.arange(height) == index).unsqueeze(-1), _one_hot(height, step).unsqueeze(-1)
        swapped = []
        for rows in (rest, order):
            row = torch.where(is_pivot, rows, 0).sum(-2, keepdim=True)
            swapped.append(torch.where(is_step, row, torch.where(is_pivot, rows[..., step : step + 1, :], rows)))
        rest, order = swapped
        is_below, is_right = (torch.arange(height) > step).unsqueeze(-1), torch.arange(width) > step
        pivot = rest[..., step : step + 1, step : step + 1]
        factors = torch.where(is_below, rest[..., step : step + 1] / torch.where(pivot == 0, 1.0, pivot), 0.0)
        rest = rest - torch.where(is_right, factors * rest[..., step : step + 1, :], 0.0)
        rest = torch.where(is_below & _one_hot(width, step), factors, rest)
    return rest, torch.cat(pivots, -1).to(torch.int32), order.squeeze(-1)


def _split_factors(factors: Tensor) -> tuple[Tensor, Tensor]:
    height, width = factors.shape[-2:]
    least = min(height, width)
    unit = torch.eye(height, least, dtype=factors.dtype)
    return factors[..., :least].tril(-1) + unit, factors[..., :least, :].triu()


def _factorize(matrix: Tensor, *, pivot: bool = True) -> Any:
    if not pivot or not _is_small(matrix, matrix.mT):
        return NotImplemented
    factors, pivots, _ = _lu_factors(matrix)
    return factors, pivots


def _permute_rows(rows: Tensor, pivots: Tensor) -> Tensor:
    """Permute rows by the pivots of a factorisation."""
    count = rows.shape[-2]
    for step in range(pivots.shape[-1]):
        is_pivot_row = (torch.arange(count) == pivots[..., step : step + 1] - 1).unsqueeze(-1)
        pivot_row = torch.where(is_pivot_row, rows, 0).sum(-2, keepdim=True)
        others = torch.where(is_pivot_row, rows[..., step : step + 1, :], rows)
        rows = torch.where(_one_hot(count, step).unsqueeze(-1), pivot_row, others)
    return rows


def _solve_by_factors(
    factors: Tensor, pivots: Tensor, right: Tensor, *, left: bool = True, adjoint: bool = False
) -> Any:
    if not left or adjoint or not _is_small(factors):
        return NotImplemented
    lower, upper = _split_factors(factors)
    right = right.expand(*torch.broadcast_shapes(factors.shape[:-2], right.shape[:-2]), *right.shape[-2:])
    first = _solve_triangular(lower, _permute_rows(right, pivots), upper=False, unitriangular=True)
    return _solve_triangular(upper, first, upper=True)


def _solve(matrix: Tensor, right: Tensor, *, left: bool = True) -> Any:
    if not _is_small(matrix):
        return NotImplemented
    is_vector = right.ndim == 1 or (right.ndim == matrix.ndim - 1 and right.shape == matrix.shape[:-1])
    right = right.unsqueeze(-1) if is_vector else right
    if not left:
        matrix, right = matrix.mT, right.mT
    batch = torch.broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
    matrix, right = (tensor.expand(*batch, *tensor.shape[-2:]) for tensor in (matrix, right))
    solution = _eliminate(matrix, right)[1]
    solution = solution if left else solution.mT
    return solution.squeeze(-1) if is_vector else solution


def _inverse(matrix: Tensor) -> Any:
    if not _is_small(matrix):
        return NotImplemented
    return _solve(matrix, torch.eye(matrix.shape[-1], dtype=matrix.dtype).expand(matrix.shape))


def _determinant(matrix: Tensor) -> Any:
    if not _is_small(matrix):
        return NotImplemented
    pivots, _, sign = _eliminate(matrix, matrix[..., :0])
    return pivots.prod(-1) * sign


def _sign_and_log_determinant(matrix: Tensor) -> Any:
    if not _is_small(matrix):
        return NotImplemented
    pivots, _, sign = _eliminate(matrix, matrix[..., :0])
    return pivots.sign().prod(-1) * sign, pivots.abs().log().sum(-1)


def _log_determinant(matrix: Tensor) -> Any:
    if not _is_small(matrix):
        return NotImplemented
    sign, logarithm = _sign_and_log_determinant(matrix)
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
    factor = torch.cat(columns, -1)
    return factor.mT if upper else factor


def _solve_triangular(
    matrix: Tensor, right: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    """Solve by substitution. The other triangle is not read."""
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
    solution = torch.cat([rows[step] for step in range(count)], -2)
    return solution if left else solution.mT


def _cholesky_solve(right: Tensor, factor: Tensor, upper: bool = False) -> Any:
    if not _is_small(factor):
        return NotImplemented
    lower = factor.mT if upper else factor
    return _solve_triangular(lower.mT, _solve_triangular(lower, right, upper=False), upper=True)


def _with_error_code(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Add an error code to the results, which is always 0."""

    def with_code(matrix: Tensor, *others: Any, check_errors: bool = False, **named: Any) -> Any:
        result = compute(matrix, *others, **named)
        if result is NotImplemented:
            return result
        results = result if isinstance(result, tuple) else (result,)
        return *results, torch.zeros(matrix.shape[:-2], dtype=torch.int32)

    return with_code


def _with_factors(compute: Callable[..., Any], has_error_code: bool = False) -> Callable[..., Any]:
    """Add the LU factors to the results, which PyTorch uses for derivatives."""

    def with_factors(matrix: Tensor, *others: Any, check_errors: bool = False, **named: Any) -> Any:
        result, factors = compute(matrix, *others, **named), _factorize(matrix)
        if result is NotImplemented or factors is NotImplemented:
            return NotImplemented
        results = result if isinstance(result, tuple) else (result,)
        return *results, *factors, *([torch.zeros(matrix.shape[:-2], dtype=torch.int32)] if has_error_code else [])

    return with_factors


def _ignore_errors(*_: Any, **__: Any) -> None:
    """A compiled network cannot raise errors."""


DECOMPOSITIONS: Mapping[torch._ops.OpOverload, Callable[..., Any]] = {
    aten.linalg_inv.default: _inverse,
    aten.inverse.default: _inverse,
    aten.linalg_inv_ex.default: _with_error_code(_inverse),
    aten.linalg_solve.default: _solve,
    aten.linalg_solve_ex.default: _with_error_code(_solve),
    aten._linalg_solve_ex.default: _with_factors(_solve, has_error_code=True),
    aten._linalg_det.default: _with_factors(_determinant),
    aten._linalg_slogdet.default: _with_factors(_sign_and_log_determinant),
    aten.linalg_lu_factor.default: _factorize,
    aten.linalg_lu_factor_ex.default: _with_error_code(_factorize),
    aten.linalg_lu_solve.default: _solve_by_factors,
    aten.linalg_det.default: _determinant,
    aten.det.default: _determinant,
    aten.linalg_slogdet.default: _sign_and_log_determinant,
    aten.slogdet.default: _sign_and_log_determinant,
    aten.logdet.default: _log_determinant,
    aten.linalg_cholesky.default: lambda matrix, *, upper=False: _cholesky(matrix, upper),
    aten.linalg_cholesky_ex.default: _with_error_code(_cholesky),
    aten.cholesky.default: _cholesky,
    aten.cholesky_solve.default: _cholesky_solve,
    aten.linalg_solve_triangular.default: _solve_triangular,
    aten._linalg_check_errors.default: _ignore_errors,
}
