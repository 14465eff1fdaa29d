"""Exponentials and logarithms that are accurate near zero: the plain ``log(1 + x)`` of 1e-6 has one correct digit in float32.

Kahan's formula divides by ``(1 + x) - 1``, which TVM simplifies to ``x``. Repair: `float-reassociation`.
"""

from typing import Any

from tvm import relax  # isort: skip

TERMS = 9
"""Terms of the series of atanh; for arguments up to 1/3, the remainder is below 1e-9 of the sum."""


def expm1(x: Any) -> Any:
    """``exp(x) - 1``: with tanh near zero, with the plain formula elsewhere."""
    return _expm1(x, x)


def _expm1(x: Any, like: Any) -> Any:
    half, one, two = _constants(like, 0.5, 1.0, 2.0)
    t = relax.op.tanh(relax.op.multiply(x, half))
    near = relax.op.divide(relax.op.multiply(two, t), relax.op.subtract(one, t))
    far = relax.op.subtract(relax.op.exp(x), one)
    return relax.op.where(relax.op.less(relax.op.abs(x), one), near, far)


def elu(x: Any, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Any:
    """``scale · (x for x > 0, else alpha · (exp(input_scale · x) − 1))``."""
    zero, factor, within = _constants(x, 0.0, alpha, input_scale)
    negative = _expm1(relax.op.minimum(relax.op.multiply(x, within) if input_scale != 1 else x, zero), x)
    both = relax.op.add(relax.op.nn.relu(x), relax.op.multiply(negative, factor) if alpha != 1 else negative)
    return relax.op.multiply(both, *_constants(x, scale)) if scale != 1 else both


def log1p(x: Any) -> Any:
    """``log(1 + x)``: ``2 · atanh(x / (x + 2))`` near zero, the plain formula elsewhere."""
    half, one, two = _constants(x, 0.5, 1.0, 2.0)
    near = relax.op.multiply(two, _atanh_series(relax.op.divide(x, relax.op.add(x, two)), x))
    return relax.op.where(relax.op.less(relax.op.abs(x), half), near, relax.op.log(relax.op.add(x, one)))


def atanh(x: Any) -> Any:
    """The inverse hyperbolic tangent: by its series near zero, TVM's elsewhere."""
    (third,) = _constants(x, 1 / 3)
    return relax.op.where(relax.op.less(relax.op.abs(x), third), _atanh_series(x, x), relax.op.atanh(x))


def _atanh_series(s: Any, like: Any) -> Any:
    """``s + s³/3 + s⁵/5 + …``"""
    square = relax.op.multiply(s, s)
    sum_, *coefficients = _constants(like, *(1 / (2 * term + 1) for term in reversed(range(TERMS))))
    for coefficient in coefficients:
        sum_ = relax.op.add(relax.op.multiply(sum_, square), coefficient)
    return relax.op.multiply(s, sum_)


def _constants(like: Any, *values: float) -> list[Any]:
    return [relax.const(value, str(like.ty.dtype)) for value in values]
