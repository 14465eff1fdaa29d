"""Special functions by their approximations in single precision; float64 stays as it is, and is refused."""

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

I0_SMALL = (0.0045813, 0.0360768, 0.2659732, 1.2067492, 3.0899424, 3.5156229, 1.0)
I0_LARGE = (
    0.00392377, -0.01647633, 0.02635537, -0.02057706, 0.00916281, -0.00157565, 0.00225319, 0.01328592, 0.39894228,
)  # fmt: skip
I1_SMALL = (0.00032411, 0.00301532, 0.02658733, 0.15084934, 0.51498869, 0.87890594, 0.5)
I1_LARGE = (
    -0.00420059, 0.01787654, -0.02895312, 0.02282967, -0.01031555, 0.00163801, -0.00362018, -0.03988024, 0.39894228,
)  # fmt: skip
"""M. Abramowitz and I. Stegun, "Handbook of Mathematical Functions", 1964, 9.8.1 to 9.8.4."""
BESSEL_BORDER = 3.75

SHIFT = 6
"""Asymptotic series of digamma and trigamma start so far on."""


def _single(compute: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Any]:
    """A function of float32; whole numbers become that."""

    def computed(data: Tensor) -> Any:
        if data.dtype == torch.float64:
            return NotImplemented
        return compute(data if data.is_floating_point() else data.to(torch.float32))

    return computed


def _polynomial(at: Tensor, coefficients: Sequence[float]) -> Tensor:
    """By Horner's rule, the highest power first."""
    found = torch.full_like(at, coefficients[0])
    for coefficient in coefficients[1:]:
        found = found * at + coefficient
    return found


def _inverse_error_function(data: Tensor) -> Tensor:
    depth = -torch.log((1 - data) * (1 + data))
    middle = _polynomial(depth - 2.5, ERFINV_MIDDLE)
    ends = _polynomial(depth.clamp(min=5).sqrt() - 3, ERFINV_ENDS)
    found = data * torch.where(depth < 5, middle, ends)
    return torch.where(data.abs() == 1, data * math.inf, found)


def _is_pole(data: Tensor) -> Tensor:
    return (data <= 0) & (data == torch.floor(data))


def _digamma(data: Tensor) -> Tensor:
    """By its recurrence and asymptotic series; below a half by reflection."""
    positive = torch.where(data < 0.5, 1 - data, data)
    steps = torch.zeros_like(positive)
    for step in range(SHIFT):
        steps = steps + 1 / (positive + step)
    far = positive + SHIFT
    squared = 1 / (far * far)
    series = squared * _polynomial(squared, (-1 / 240, 1 / 252, -1 / 120, 1 / 12))
    found = far.log() - 0.5 / far - series - steps
    angle = math.pi * (data - torch.round(data))
    found = torch.where(data < 0.5, found - math.pi * torch.cos(angle) / torch.sin(angle), found)
    at_zero = torch.where(1 / data < 0, math.inf, -math.inf)
    return torch.where(data == 0, at_zero, torch.where(_is_pole(data), math.nan, found))


def _trigamma(data: Tensor) -> Tensor:
    positive = torch.where(data < 0.5, 1 - data, data)
    steps = torch.zeros_like(positive)
    for step in range(SHIFT):
        steps = steps + 1 / ((positive + step) * (positive + step))
    far = positive + SHIFT
    squared = 1 / (far * far)
    found = steps + (1 + 0.5 / far + squared * _polynomial(squared, (-1 / 30, 1 / 42, -1 / 30, 1 / 6))) / far
    sine = torch.sin(math.pi * (data - torch.round(data)))
    return torch.where(data < 0.5, math.pi**2 / (sine * sine) - found, found)


def _polygamma(order: int, data: Tensor) -> Any:
    if order > 1:
        return NotImplemented
    return _single(_trigamma if order else _digamma)(data)


def _scaled_bessel(order: int) -> Callable[[Tensor], Tensor]:
    """The modified Bessel function of the first kind, times exp(-size)."""
    small, large = ((I0_SMALL, I0_LARGE), (I1_SMALL, I1_LARGE))[order]

    def compute(data: Tensor) -> Tensor:
        size = data.abs()
        near, far = size.clamp(max=BESSEL_BORDER), size.clamp(min=BESSEL_BORDER)
        inner = _polynomial((near / BESSEL_BORDER) * (near / BESSEL_BORDER), small) * torch.exp(-near)
        outer = _polynomial(BESSEL_BORDER / far, large) / far.sqrt()
        if order:
            return torch.where(size < BESSEL_BORDER, inner * data, outer * data.sign())
        return torch.where(size < BESSEL_BORDER, inner, outer)

    return compute


def _bessel(order: int) -> Callable[[Tensor], Tensor]:
    scaled = _scaled_bessel(order)
    return lambda data: scaled(data) * torch.exp(data.abs())


DECOMPOSITIONS: Mapping[torch._ops.OpOverload, Callable[..., Any]] = {
    aten.erfinv.default: _single(_inverse_error_function),
    aten.digamma.default: _single(_digamma),
    aten.polygamma.default: _polygamma,
    aten.i0.default: _single(_bessel(0)),
    aten.special_i0e.default: _single(_scaled_bessel(0)),
    aten.special_i1.default: _single(_bessel(1)),
    aten.special_i1e.default: _single(_scaled_bessel(1)),
}
