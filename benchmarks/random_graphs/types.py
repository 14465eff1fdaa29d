"""Steps between types: comparisons, masks, integers."""

from random import Random
from typing import Any

import torch
import torch.nn.functional as F  # as everybody calls it
from torch import Tensor

from .images import is_float
from .network import Kind, Options

COMPARISONS: dict[str, Any] = {
    "gt": torch.gt,
    "ge": torch.ge,
    "lt": torch.lt,
    "le": torch.le,
    "eq": torch.eq,
    "ne": torch.ne,
}

INTEGERS: dict[str, Any] = {
    "plus_number": lambda x: x + 3,
    "times_number": lambda x: x * 2 - 1,
    "floor_divide_number": lambda x: x // 3,
    "remainder_number": lambda x: x % 4,
    "clamp_integers": lambda x: x.clamp(0, 5),
    "divide_integers": lambda x: x / 4,
    "as_float": lambda x: x.float() * 0.3,
    "as_int32": lambda x: x.to(torch.int32).to(torch.int64) * 2,
    "negative": lambda x: -x,
    "float_power": lambda x: x.float().clamp(-3, 3) ** 2,
    "mixed_product": lambda x: x * 0.7,
    "shifted": lambda x: (x << 1) | 1,
    "parity": lambda x: x % 2 == 0,
    "one_of": lambda x: torch.where(x > 2, x, 2 - x),
    "sum_of_integers": lambda x: x.sum(),
    "running_integers": lambda x: x.cumsum(-1),
    "wrapped": lambda x: x.remainder(11),
}

MASKS: dict[str, Any] = {
    "not": torch.logical_not,
    "mask_as_float": lambda x: x.float() + 0.5,
    "any": lambda x: x.any(-1),
    "all": lambda x: x.all(-1, keepdim=True),
    "count": lambda x: x.sum(-1),
    "mask_as_integers": lambda x: x.long() * 3,
    "where_mask": lambda x: torch.where(x, 1.5, -0.5),
}


def _is_integer(x: Tensor) -> bool:
    return x.dtype == torch.int64


def _is_mask(x: Tensor) -> bool:
    return x.dtype == torch.bool


def _integers(rng: Random, x: Tensor) -> Options | None:
    return {} if _is_integer(x) and x.dim() else None


def _masks(rng: Random, x: Tensor) -> Options | None:
    return {} if _is_mask(x) and x.dim() else None


def _compares(rng: Random, x: Tensor) -> Options | None:
    if _is_mask(x):
        return None
    return {"operation": rng.choice(list(COMPARISONS)[: 4 if is_float(x) else 6]), "number": rng.choice((0, 1, 2))}


def _argument(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x) or not x.dim():
        return None
    return {"dim": rng.randrange(x.dim()), "keepdim": rng.random() < 0.4}


def _shares_shape(x: Tensor, y: Tensor) -> bool:
    pairs = list(zip(reversed(x.shape), reversed(y.shape), strict=False))
    return is_float(y) and bool(pairs) and all(left == right or 1 in (left, right) for left, right in pairs)


def _top_places(rng: Random, x: Tensor) -> Options | None:
    axes = [axis for axis in range(x.dim()) if 2 <= x.shape[axis] <= 64] if is_float(x) else []
    return {"k": 2, "dim": rng.choice(axes)} if axes else None


def _taken(x: Tensor, y: Tensor) -> bool:
    return is_float(y) and y.dim() >= 2 and x.numel() < 100


KINDS: dict[str, Kind] = {
    **{name: Kind(_integers, lambda x, f=function: f, weight=0.35) for name, function in INTEGERS.items()},
    **{name: Kind(_masks, lambda x, f=function: f, weight=0.8) for name, function in MASKS.items()},
    "compare": Kind(
        _compares, lambda x, operation, number: lambda value: COMPARISONS[operation](value, number), weight=0.3
    ),
    "compare_values": Kind(
        lambda rng, x: {"operation": rng.choice(("gt", "lt", "ge"))} if is_float(x) else None,
        lambda x, y, operation: COMPARISONS[operation],
        _shares_shape,
        weight=0.2,
    ),
    "argmax": Kind(_argument, lambda x, **options: lambda value: value.argmax(**options), weight=0.3),
    "argmin": Kind(_argument, lambda x, **options: lambda value: value.argmin(**options), weight=0.15),
    "argsort": Kind(
        lambda rng, x: {"dim": rng.randrange(x.dim())} if is_float(x) and x.dim() else None,
        lambda x, dim: lambda value: value.argsort(dim),
        weight=0.1,
    ),
    "top_places": Kind(_top_places, lambda x, **options: lambda value: value.topk(**options).indices, weight=0.15),
    "one_hot": Kind(
        lambda rng, x: {} if _is_integer(x) and x.dim() < 4 and x.numel() and x.min() >= 0 and x.max() < 12 else None,
        lambda x: lambda value: F.one_hot(value, 12),
        weight=0.6,
    ),
    "masked_by": Kind(_masks, lambda x, y: lambda mask, value: value.masked_fill(mask, 0.25), _shares_shape, weight=2),
    "chosen_by": Kind(
        _masks, lambda x, y: lambda mask, value: torch.where(mask, value, value * 0.3 - 1), _shares_shape, weight=2
    ),
    "integer_times": Kind(_integers, lambda x, y: lambda integers, value: integers * value, _shares_shape, weight=1),
    "take_by": Kind(
        _integers,
        lambda x, y: lambda integers, value: value[integers.remainder(value.shape[0])],
        _taken,
        weight=0.7,
    ),
    "take_columns_by": Kind(
        _integers,
        lambda x, y: lambda integers, value: value[:, integers.remainder(value.shape[1]).flatten()],
        _taken,
        weight=0.5,
    ),
    "logical_and": Kind(
        _masks, lambda x, y: torch.logical_and, lambda x, y: _is_mask(y) and x.shape == y.shape, weight=1
    ),
    "logical_xor": Kind(
        _masks, lambda x, y: torch.logical_xor, lambda x, y: _is_mask(y) and x.shape == y.shape, weight=0.5
    ),
}
"""By name."""
