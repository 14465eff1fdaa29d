"""Decompose ``erfc`` and ``erfinv`` into single-precision approximations. ``erfinv`` of float64 is refused."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

ERFINV_MIDDLE = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
ERFINV_ENDS = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip
"""M. Giles, "Approximating the erfinv function", 2012."""

ERFC = (
    0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223,
)  # fmt: skip
"""W. Press et al., "Numerical Recipes in C", 2nd edition, 1992, 6.2: relative errors below 1.2e-7 everywhere."""
STEPS = 16
"""Number of steps per unit of values with exact squares."""


def _in_float32(compute: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Any]:
    """Compute a function in float32, also of integers; NotImplemented for float64."""

    def compute_in_float32(data: Tensor) -> Any:
        if data.dtype == torch.float64:
            return NotImplemented
        return compute(data if data.is_floating_point() else data.to(torch.float32))

    return compute_in_float32


def _polynomial(argument: Tensor, coefficients: Sequence[float]) -> Tensor:
    """By Horner's rule, the highest power first."""
    result = torch.full_like(argument, coefficients[0])
    for coefficient in coefficients[1:]:
        result = result * argument + coefficient
    return result


def _inverse_error_function(data: Tensor) -> Tensor:
    result = _inverse_error(data, -torch.log((1 - data) * (1 + data)))
    return torch.where(data.abs() > 1, math.nan, torch.where(data.abs() == 1, data * math.inf, result))


def _inverse_error(data: Tensor, depth: Tensor) -> Tensor:
    """The inverse error function, with ``depth = -log(1 - data²)``."""
    middle = _polynomial(depth - 2.5, ERFINV_MIDDLE)
    ends = _polynomial(depth.clamp(min=5).sqrt() - 3, ERFINV_ENDS)
    return data * torch.where(depth < 5, middle, ends)


def _error_complement(data: Tensor) -> Tensor:
    if data.dtype == torch.float64:
        return 1 - torch.erf(data)
    size = data.abs().clamp(max=30)  # the result underflows long before
    result = _scaled_error_complement(size) * _decay(size)
    return torch.where(data.isnan(), data, torch.where(data < 0, 2 - result, result))


def _scaled_error_complement(size: Tensor) -> Tensor:
    """``erfc(size) · exp(size²)``."""
    closeness = 1 / (1 + size / 2)
    return closeness * torch.exp(_polynomial(closeness, ERFC))


def _decay(size: Tensor) -> Tensor:
    """``exp(-size²)`` as two factors, because rounding a large square would lose digits."""
    coarse = torch.floor(size * STEPS) / STEPS
    return torch.exp(-coarse * coarse) * torch.exp((coarse - size) * (coarse + size))


DECOMPOSITIONS: Mapping[torch._ops.OpOverload, Callable[..., Any]] = {
    aten.erfinv.default: _in_float32(_inverse_error_function),
    aten.erfc.default: _error_complement,
}
