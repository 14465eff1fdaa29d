"""Compute exponentials and related functions with arithmetic, which CPUs vectorise.

LLVM has no vector code for these functions: a loop over lanes calls the C library for each value, which takes ten times
as long as a polynomial. These implementations are accurate to a few units in the last place of float32, infinities and
NaN included. Types other than float32 and float16 still use the library.

Sources: exp and log, S. Moshier's Cephes (expf, logf); erf and tanh, the rational approximations of Eigen's
``generic_fast_erf`` and ``generic_fast_tanh_float``, which XLA also uses.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import tvm

from tvmake.ir.expressions import dtype_name, is_call, operator_name
from tvmake.targets.cpu.vectors.bindings import Bindings, replace_calls

tirx = tvm.tirx

EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
LOG2_E = 1.44269504088896341
LN2 = (0.693359375, -2.12194440e-4)
"""In two parts. The first has few digits, so that its multiples are exact."""
EXP_RANGE = (-104.0, 89.0)
"""Outside this range the result is 0 or infinite."""
BIAS, MANTISSA = 127, 23
"""Exponent bias and mantissa bits of float32."""

LOG = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1,
    -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
ROOT_OF_HALF = 0x3F3504F3
"""The bits of √½. Mantissas start there, so that the remaining logarithm is small on both sides of one."""
SMALLEST = 1.1754943508222875e-38
"""Smaller values are subnormal, and are first scaled by 2^23."""

ERF_ABOVE = (
    -2.72614225801306e-10, 2.77068142495902e-8, -2.10102402082508e-6, -5.69250639462346e-5, -7.34990630326855e-4,
    -2.95459980854025e-3, -1.60960333262415e-2,
)  # fmt: skip
ERF_BELOW = (
    -1.45660718464996e-5,
    -2.13374055278905e-4,
    -1.68282697438203e-3,
    -7.37332916720468e-3,
    -1.42647390514189e-2,
)
ERF_RANGE = 4.0

TANH_ABOVE = (
    -2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-8, 1.48572235717979e-5,
    6.37261928875436e-4, 4.89352455891786e-3,
)  # fmt: skip
TANH_BELOW = (1.19825839466702e-6, 1.18534705686654e-4, 2.26843463243900e-3, 4.89352518554385e-3)
TANH_RANGE = 7.90531110763549805
TANH_SMALL = 4e-4
"""Below this, the result equals the argument."""

SINGLE, HALF = "float32", "float16"


@tirx.transform.prim_func_pass(opt_level=0, name="VectorMath")
def vectorize_math(func: Any, _module: Any, _context: Any) -> Any:
    """Replace exp, log, erf, tanh, sigmoid and small powers by arithmetic."""
    body = replace_calls(func.body, _replace_call)
    return func if body.same_as(func.body) else func.with_body(body)


def _replace_call(call: Any, bindings: Bindings) -> Any:
    function = FUNCTIONS.get(operator_name(call))
    if function is None and not is_call(call, "tirx.pow"):
        return call
    dtype, _, lanes = dtype_name(call.ty).partition("x")
    if dtype not in (SINGLE, HALF):
        return call
    if function is None:
        return _power(call, bindings)
    value = call.args[0]
    if dtype == HALF:
        wide = f"{SINGLE}x{lanes}" if lanes else SINGLE
        return tirx.Cast(dtype_name(call.ty), function(bindings.bind("value", tirx.Cast(wide, value)), bindings))
    return function(bindings.bind("value", value), bindings)


def _constant(like: Any, value: float) -> Any:
    """A constant of a value's type, in each lane."""
    return tirx.const(value, dtype_name(like.ty))


def _integers(like: Any) -> str:
    """The integer type with as many lanes."""
    return dtype_name(like.ty).replace(SINGLE, "int32")


def _polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """Evaluate a polynomial by Horner's scheme; the first coefficient belongs to the highest power."""
    result = _constant(x, coefficients[0])
    for coefficient in coefficients[1:]:
        result = result * x + _constant(x, coefficient)
    return result


def _clamp(x: Any, low: float, high: float) -> Any:
    return tirx.max(tirx.min(x, _constant(x, high)), _constant(x, low))


def _or_nan(x: Any, result: Any) -> Any:
    """The result, or NaN if the argument is NaN, which clamping would lose."""
    return tirx.Select(tirx.isnan(x), x, result)


def _exp(x: Any, bindings: Bindings) -> Any:
    """2^k · e^r with |r| at most half of ln 2. The power of two has two factors, for results near either limit."""
    clamped = bindings.bind("clamped", _clamp(x, *EXP_RANGE))
    k = bindings.bind("k", tirx.floor(clamped * _constant(x, LOG2_E) + _constant(x, 0.5)))
    r = bindings.bind("r", clamped - k * _constant(x, LN2[0]) - k * _constant(x, LN2[1]))
    power = bindings.bind("power", tirx.Cast(_integers(x), k))
    half = bindings.bind("half", power >> _constant(power, 1))
    result = (_polynomial(r, EXP) * r * r + r + _constant(x, 1.0)) * _two_to(half, x) * _two_to(power - half, x)
    return _or_nan(x, result)


def _two_to(power: Any, like: Any) -> Any:
    return tirx.reinterpret(dtype_name(like.ty), (power + _constant(power, BIAS)) << _constant(power, MANTISSA))


def _log(x: Any, bindings: Bindings) -> Any:
    """e · ln 2 + log(1 + m) of 2^e · (1 + m)."""
    is_small = x < _constant(x, SMALLEST)
    scaled = bindings.bind("scaled", tirx.Select(is_small, x * _constant(x, 1 << MANTISSA), x))
    bits = bindings.bind("bits", tirx.reinterpret(_integers(x), scaled) - tirx.const(ROOT_OF_HALF, _integers(x)))
    mantissa = (bits & _constant(bits, (1 << MANTISSA) - 1)) + _constant(bits, ROOT_OF_HALF)
    m = bindings.bind("m", tirx.reinterpret(dtype_name(x.ty), mantissa) - _constant(x, 1))
    exponent = tirx.Cast(dtype_name(x.ty), bits >> _constant(bits, MANTISSA))
    e = bindings.bind("e", exponent - tirx.Select(is_small, _constant(x, MANTISSA), _constant(x, 0)))
    rest = _polynomial(m, LOG) * m * m * m + e * _constant(x, LN2[1]) - m * m * _constant(x, 0.5)
    result = m + rest + e * _constant(x, LN2[0])
    infinite, none = _constant(x, math.inf), _constant(x, math.nan)
    beyond = tirx.Select(x == _constant(x, 0), -infinite, none)
    return tirx.Select(x > _constant(x, 0), tirx.Select(x < infinite, result, x), beyond)


def _rational(x: Any, above: Sequence[float], below: Sequence[float], bindings: Bindings) -> Any:
    """An odd rational function."""
    square = bindings.bind("square", x * x)
    return x * _polynomial(square, above) / _polynomial(square, below)


def _erf(x: Any, bindings: Bindings) -> Any:
    clamped = bindings.bind("clamped", _clamp(x, -ERF_RANGE, ERF_RANGE))
    return _or_nan(x, _rational(clamped, ERF_ABOVE, ERF_BELOW, bindings))


def _tanh(x: Any, bindings: Bindings) -> Any:
    clamped = bindings.bind("clamped", _clamp(x, -TANH_RANGE, TANH_RANGE))
    result = _rational(clamped, TANH_ABOVE, TANH_BELOW, bindings)
    return _or_nan(x, tirx.Select(tirx.abs(x) < _constant(x, TANH_SMALL), x, result))


def _sigmoid(x: Any, bindings: Bindings) -> Any:
    return _constant(x, 1.0) / (_constant(x, 1.0) + _exp(bindings.bind("value", -x), bindings))


def _power(call: Any, bindings: Bindings) -> Any:
    """A square or a cube as multiplications; other powers unchanged."""
    base, exponent = call.args
    power = exponent.value if isinstance(exponent, tirx.Broadcast) else exponent
    if not isinstance(power, tirx.FloatImm) or float(power) not in (2.0, 3.0):
        return call
    value = bindings.bind("value", base)
    return value * value if float(power) == 2.0 else value * value * value


FUNCTIONS: dict[str, Callable[[Any, Bindings], Any]] = {
    "tirx.exp": _exp,
    "tirx.log": _log,
    "tirx.erf": _erf,
    "tirx.tanh": _tanh,
    "tirx.sigmoid": _sigmoid,
}
"""Implementations by operator."""
