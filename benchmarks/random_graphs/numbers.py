"""Steps that compute with numbers: activations, arithmetic, reductions.

Operations with poles are kept away from them: divisors and logarithms' arguments are at least 0.3.
"""

from random import Random
from typing import Any

import torch
import torch.nn.functional as F  # as everybody calls it
from torch import Tensor

from .images import is_float
from .network import Kind, Options

UNARY: dict[str, Any] = {
    "relu": F.relu,
    "relu6": F.relu6,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "elu": lambda x: F.elu(x, 0.7),
    "selu": F.selu,
    "celu": lambda x: F.celu(x, 0.5),
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "mish": F.mish,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 0.8),
    "softplus": lambda x: F.softplus(x, 2.0),
    "softsign": F.softsign,
    "logsigmoid": F.logsigmoid,
    "tanhshrink": F.tanhshrink,
    "softshrink": lambda x: F.softshrink(x, 0.2),
    "hardshrink": lambda x: F.hardshrink(x, 0.2),
    "threshold": lambda x: F.threshold(x, 0.1, -0.5),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "abs": torch.abs,
    "neg": torch.neg,
    "square": torch.square,
    "exp": lambda x: torch.exp(x.clamp(max=3)),
    "expm1": lambda x: torch.expm1(x.clamp(max=3)),
    "log": lambda x: torch.log(x.abs() + 0.3),
    "log1p": lambda x: torch.log1p(x.abs()),
    "log2": lambda x: torch.log2(x.abs() + 0.3),
    "sqrt": lambda x: torch.sqrt(x.abs() + 0.3),
    "rsqrt": lambda x: torch.rsqrt(x.abs() + 0.3),
    "reciprocal": lambda x: torch.reciprocal(x.abs() + 0.3),
    "cube": lambda x: x.pow(3),
    "power": lambda x: x.abs().add(0.3).pow(1.7),
    "power_of_number": lambda x: torch.pow(2.0, x.clamp(max=4)),
    "sin": torch.sin,
    "cos": torch.cos,
    "atan": torch.atan,
    "asin": lambda x: torch.asin(x.clamp(-0.9, 0.9)),
    "sinh": lambda x: torch.sinh(x.clamp(-3, 3)),
    "asinh": torch.asinh,
    "erf": torch.erf,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round": torch.round,
    "trunc": torch.trunc,
    "sign": torch.sign,
    "frac": torch.frac,
    "clamp": lambda x: x.clamp(-0.4, 0.6),
    "clamp_min": lambda x: x.clamp(min=-0.2),
    "scale": lambda x: x * 1.5 + 0.25,
    "from_number": lambda x: 1 - x,
    "divided_number": lambda x: 2 / (x.abs() + 0.5),
    "where_positive": lambda x: torch.where(x > 0, x, x * 0.1),
    "where_number": lambda x: torch.where(x > 0.2, x, -1.0),
    "masked_fill": lambda x: x.masked_fill(x < 0, -0.7),
    "as_mask": lambda x: (x > 0).float() * x,
    "nan_to_num": lambda x: torch.nan_to_num(x),
}
"""Without other operands or options."""

BINARY: dict[str, Any] = {
    "add": torch.add,
    "add_scaled": lambda x, y: torch.add(x, y, alpha=0.5),
    "sub": torch.sub,
    "mul": torch.mul,
    "div": lambda x, y: x / (y.abs() + 0.3),
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "where": lambda x, y: torch.where(x > y, x, y * 0.5),
    "lerp": lambda x, y: torch.lerp(x, y, 0.3),
    "addcmul": lambda x, y: torch.addcmul(x, x, y, value=0.4),
    "atan2": lambda x, y: torch.atan2(x, y.abs() + 0.3),
    "power_of": lambda x, y: torch.pow(x.abs() + 0.3, y.clamp(-2, 2)),
    "gated": lambda x, y: x * torch.sigmoid(y),
    "remainder": lambda x, y: torch.remainder(x, y.abs() + 0.5),
    "fmod": lambda x, y: torch.fmod(x, y.abs() + 0.5),
    "floor_divide": lambda x, y: torch.div(x, y.abs() + 0.5, rounding_mode="floor"),
    "trunc_divide": lambda x, y: torch.div(x, y.abs() + 0.5, rounding_mode="trunc"),
    "hypot": lambda x, y: torch.hypot(x, y.abs() + 0.1),
    "logaddexp": torch.logaddexp,
    "squared_difference": lambda x, y: (x - y) ** 2,
}
"""Of two values that broadcast."""

ONCE = {
    "hypot",
    "logaddexp",
    "fmod",
    "atan2",
    "power_of",
    "trunc_divide",
    "floor_divide",
    "remainder",
    "addcmul",
    "lerp",
}
"""Which binary operations are rarer than others."""


def _floats(rng: Random, x: Tensor) -> Options | None:
    return {} if is_float(x) else None


def _broadcasts(x: Tensor, y: Tensor) -> bool:
    if not is_float(y):
        return False
    pairs = zip(reversed(x.shape), reversed(y.shape), strict=False)
    return all(left == right or 1 in (left, right) for left, right in pairs)


def _axes(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x) or not x.dim():
        return None
    count = rng.choice((1, 1, 2, x.dim()))
    axes = tuple(rng.sample(range(x.dim()), min(count, x.dim())))
    if rng.random() < 0.3:
        axes = tuple(axis - x.dim() for axis in axes)
    return {"dim": axes, "keepdim": rng.random() < 0.5}


def _spread_axes(rng: Random, x: Tensor) -> Options | None:
    """Axes along which there is something to spread."""
    options = _axes(rng, x)
    count = 1
    for axis in options["dim"] if options else ():
        count *= x.shape[axis]
    return options if count >= 3 else None


def _axis(rng: Random, x: Tensor) -> Options | None:
    return {"dim": rng.randrange(-x.dim(), x.dim())} if is_float(x) and x.dim() else None


def _one_axis(rng: Random, x: Tensor) -> Options | None:
    return {**options, "keepdim": rng.random() < 0.5} if (options := _axis(rng, x)) else None


def _reduction(function: Any) -> Any:
    return lambda x, **options: lambda value: function(value, **options)


def _top(rng: Random, x: Tensor) -> Options | None:
    axes = [axis for axis in range(x.dim()) if 2 <= x.shape[axis] <= 64] if is_float(x) else []
    if not axes:
        return None
    axis = rng.choice(axes)
    return {"k": rng.randint(1, min(4, x.shape[axis])), "dim": axis, "largest": rng.random() < 0.7}


def _operand(rng: Random, x: Tensor) -> Options | None:
    """A weight that broadcasts from any side, as biases and scales do."""
    if not is_float(x) or not 1 <= x.dim() <= 5:
        return None
    shape = [extent if rng.random() < 0.5 else 1 for extent in x.shape]
    return {
        "shape": tuple(shape[rng.randrange(x.dim()) :]),
        "operation": rng.choice(("add", "mul", "sub", "div", "maximum")),
    }


def _make_operand(x: Tensor, shape: tuple[int, ...], operation: str) -> Any:
    value = torch.randn(shape) + 1
    return lambda given: BINARY[operation](given, value)


KINDS: dict[str, Kind] = {
    **{
        name: Kind(
            _floats, lambda x, f=function: f, weight=0.5 if name in ("relu", "gelu", "silu", "sigmoid") else 0.12
        )
        for name, function in UNARY.items()
    },
    **{
        name: Kind(_floats, lambda x, y, f=function: f, _broadcasts, weight=0.1 if name in ONCE else 0.4)
        for name, function in BINARY.items()
    },
    "operand": Kind(_operand, _make_operand, weight=1.0),
    "mean": Kind(_axes, _reduction(torch.mean), weight=0.8),
    "sum": Kind(_axes, _reduction(torch.sum), weight=0.4),
    "amax": Kind(_axes, _reduction(torch.amax), weight=0.3),
    "amin": Kind(_axes, _reduction(torch.amin), weight=0.2),
    "var": Kind(_spread_axes, _reduction(torch.var), weight=0.3),
    "std": Kind(_spread_axes, lambda x, **options: lambda value: value.var(**options).add(0.1).sqrt(), weight=0.3),
    "norm": Kind(_axes, lambda x, **options: lambda value: torch.linalg.vector_norm(value, **options), weight=0.3),
    "logsumexp": Kind(_axes, _reduction(torch.logsumexp), weight=0.2),
    "max": Kind(_one_axis, lambda x, **options: lambda value: value.max(**options).values, weight=0.3),
    "min": Kind(_one_axis, lambda x, **options: lambda value: value.min(**options).values, weight=0.2),
    "median": Kind(_one_axis, lambda x, **options: lambda value: value.median(**options).values, weight=0.05),
    "prod": Kind(_one_axis, lambda x, **options: lambda value: value.clamp(-1.5, 1.5).prod(**options), weight=0.1),
    "softmax": Kind(_axis, _reduction(torch.softmax), weight=0.6),
    "log_softmax": Kind(_axis, _reduction(torch.log_softmax), weight=0.2),
    "cumsum": Kind(_axis, _reduction(torch.cumsum), weight=0.4),
    "cumprod": Kind(_axis, lambda x, dim: lambda value: value.clamp(-1.2, 1.2).cumprod(dim), weight=0.05),
    "normalize": Kind(_axis, lambda x, dim: lambda value: F.normalize(value, dim=dim, eps=1e-3), weight=0.3),
    "top": Kind(_top, lambda x, **options: lambda value: value.topk(**options).values, weight=0.3),
    "sort": Kind(
        lambda rng, x: (
            {"dim": rng.randrange(x.dim()), "descending": rng.random() < 0.5} if is_float(x) and x.dim() else None
        ),
        lambda x, **options: lambda value: value.sort(**options).values,
        weight=0.2,
    ),
    "diff": Kind(
        lambda rng, x: options if (options := _axis(rng, x)) and x.shape[options["dim"]] > 1 else None,
        _reduction(torch.diff),
        weight=0.1,
    ),
}
"""By name."""
