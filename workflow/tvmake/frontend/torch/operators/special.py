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

ERFC = (
    0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223,
)  # fmt: skip
"""W. Press et al., "Numerical Recipes in C", 2nd edition, 1992, 6.2: relative errors below 1.2e-7 everywhere."""
STEPS = 16
"""To a unit, of numbers whose squares are exact."""

SMALL_PROBABILITY = 1e-4

J0_SMALL = (
    (-184.9052456, 77392.33017, -11214424.18, 651619640.7, -13362590354.0, 57568490574.0),
    (1.0, 267.8532712, 59272.64853, 9494680.718, 1029532985.0, 57568490411.0),
)
J0_LARGE = (
    (0.2093887211e-6, -0.2073370639e-5, 0.2734510407e-4, -0.1098628627e-2, 1.0),
    (-0.934935152e-7, 0.7621095161e-6, -0.6911147651e-5, 0.1430488765e-3, -0.1562499995e-1),
)
J1_SMALL = (
    (-30.16036606, 15704.48260, -2972611.439, 242396853.1, -7895059235.0, 72362614232.0),
    (1.0, 376.9991397, 99447.43394, 18583304.74, 2300535178.0, 144725228442.0),
)
J1_LARGE = (
    (-0.240337019e-6, 0.2457520174e-5, -0.3516396496e-4, 0.183105e-2, 1.0),
    (0.105787412e-6, -0.88228987e-6, 0.8449199096e-5, -0.2002690873e-3, 0.04687499995),
)
"""The same book, 6.5: within 1e-7."""
OSCILLATING_BORDER = 8.0

SHIFT = 6
"""Asymptotic series of digamma and trigamma start so far on."""


ZETA_TERMS = 10
ZETA_DIVISORS = (12.0, -720.0, 30240.0, -1209600.0, 47900160.0)
"""Factorials of even numbers by Bernoulli's numbers."""


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
    found = _inverse_error(data, -torch.log((1 - data) * (1 + data)))
    return torch.where(data.abs() > 1, math.nan, torch.where(data.abs() == 1, data * math.inf, found))


def _inverse_error(data: Tensor, depth: Tensor) -> Tensor:
    """Where it is known how close the argument is to an end."""
    middle = _polynomial(depth - 2.5, ERFINV_MIDDLE)
    ends = _polynomial(depth.clamp(min=5).sqrt() - 3, ERFINV_ENDS)
    return data * torch.where(depth < 5, middle, ends)


def _quantile(data: Tensor) -> Tensor:
    """Of the normal distribution; of small probabilities by Newton's method on their logarithms."""
    found = math.sqrt(2) * _inverse_error(2 * data - 1, -torch.log(4 * data * (1 - data)))
    logarithm = torch.log(data.clamp(max=SMALL_PROBABILITY))
    far = -torch.sqrt(-2 * logarithm)
    for _ in range(3):
        scaled = _scaled_error_complement_of(-far / math.sqrt(2))
        excess = -far * far / 2 + torch.log(scaled / 2) - logarithm
        far = far - excess * scaled * math.sqrt(math.pi / 2)
    found = torch.where(data < SMALL_PROBABILITY, far, found)
    found = torch.where(data == 0, -math.inf, torch.where(data == 1, math.inf, found))
    return torch.where((data < 0) | (data > 1), math.nan, found)


def _error_complement(data: Tensor) -> Tensor:
    if data.dtype == torch.float64:
        return 1 - torch.erf(data)
    size = data.abs().clamp(max=30)  # far beyond where it is zero
    found = _scaled_error_complement_of(size) * _decay(size)
    return torch.where(data.isnan(), data, torch.where(data < 0, 2 - found, found))


def _scaled_error_complement(data: Tensor) -> Tensor:
    found = _scaled_error_complement_of(data.abs())
    return torch.where(data < 0, 2 / _decay(data.abs()) - found, found)


def _scaled_error_complement_of(size: Tensor) -> Tensor:
    """Times ``exp(size²)``."""
    closeness = 1 / (1 + size / 2)
    return closeness * torch.exp(_polynomial(closeness, ERFC))


def _decay(size: Tensor) -> Tensor:
    """``exp(-size²)`` in two factors: a rounded square would lose digits where it is large."""
    coarse = torch.floor(size * STEPS) / STEPS
    return torch.exp(-coarse * coarse) * torch.exp((coarse - size) * (coarse + size))


def _oscillating_bessel(order: int) -> Callable[[Tensor], Tensor]:
    """The Bessel function of the first kind."""
    small, large = ((J0_SMALL, J0_LARGE), (J1_SMALL, J1_LARGE))[order]

    def compute(data: Tensor) -> Tensor:
        size = data.abs()
        squared = size.clamp(max=OSCILLATING_BORDER) * size.clamp(max=OSCILLATING_BORDER)
        inner = _polynomial(squared, small[0]) / _polynomial(squared, small[1])
        far = size.clamp(min=OSCILLATING_BORDER)
        ratio = OSCILLATING_BORDER / far
        angle = far - math.pi * (1 + 2 * order) / 4
        waves = torch.cos(angle) * _polynomial(ratio * ratio, large[0])
        waves = waves - ratio * torch.sin(angle) * _polynomial(ratio * ratio, large[1])
        outer = waves * torch.sqrt(2 / math.pi / far)
        if order:
            inner, outer = inner * data, outer * data.sign()
        return torch.where(size < OSCILLATING_BORDER, inner, outer)

    return compute


def _spherical_bessel(data: Tensor) -> Tensor:
    return torch.where(data == 0, 1.0, torch.sin(data) / torch.where(data == 0, 1.0, data))


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


def _zeta(power: Any, first: Any) -> Any:
    """Hurwitz' function, by some terms and Euler's and Maclaurin's formula for the others."""
    if any(isinstance(one, Tensor) and one.dtype == torch.float64 for one in (power, first)):
        return NotImplemented
    like = (power if isinstance(power, Tensor) else first).to(torch.float32)
    power, first = (
        one.to(torch.float32) if isinstance(one, Tensor) else torch.full_like(like, one) for one in (power, first)
    )
    power, first = torch.broadcast_tensors(power, first)
    found = sum((torch.pow(first + number, -power) for number in range(ZETA_TERMS)), torch.zeros_like(first))
    last = first + ZETA_TERMS
    term = torch.pow(last, -power)
    found = found + term * last / (power - 1) + 0.5 * term
    factor, number = power, 0
    for divisor in ZETA_DIVISORS:
        term = term / last
        found = found + factor * term / divisor
        factor = factor * (power + number + 1) * (power + number + 2)
        term, number = term / last, number + 2
    is_whole = torch.floor(first) == first
    left = torch.where(is_whole, math.inf, math.nan)
    found = torch.where((first <= 0) & (is_whole | (torch.floor(power) != power)), left, found)
    return torch.where(power > 1, found, torch.where(power == 1, math.inf, math.nan))


def _polygamma(order: int, data: Tensor) -> Any:
    if order > 1:
        if data.dtype == torch.float64:
            return NotImplemented
        return _zeta(float(order + 1), data) * ((-1) ** (order + 1) * math.factorial(order))
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
    aten.erfc.default: _error_complement,
    aten.special_erfcx.default: _single(_scaled_error_complement),
    aten.special_ndtri.default: _single(_quantile),
    aten.special_bessel_j0.default: _single(_oscillating_bessel(0)),
    aten.special_bessel_j1.default: _single(_oscillating_bessel(1)),
    aten.special_spherical_bessel_j0.default: _single(_spherical_bessel),
    aten.special_modified_bessel_i0.default: _single(_bessel(0)),
    aten.special_modified_bessel_i1.default: _single(_bessel(1)),
    aten.digamma.default: _single(_digamma),
    aten.polygamma.default: _polygamma,
    aten.special_zeta.default: _zeta,
    aten.special_zeta.other_scalar: _zeta,
    aten.special_zeta.self_scalar: _zeta,
    aten.i0.default: _single(_bessel(0)),
    aten.special_i0e.default: _single(_scaled_bessel(0)),
    aten.special_i1.default: _single(_bessel(1)),
    aten.special_i1e.default: _single(_scaled_bessel(1)),
}
