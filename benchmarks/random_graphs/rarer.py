"""Rare steps of networks: selections by masks, writing at indices, unpooling, matrices, functions of analysis."""

from random import Random
from typing import Any

import torch
import torch.nn.functional as F  # as everybody calls it
from torch import Tensor, nn

from .images import is_float, same_shape
from .network import Kind, Options

FUNCTIONS: dict[str, Any] = {
    "erfinv": lambda x: torch.erfinv(x.clamp(-0.9, 0.9)),
    "erfc": torch.erfc,
    "sinc": torch.sinc,
    "logit": lambda x: torch.logit(x.sigmoid(), eps=1e-3),
    "xlogy": lambda x: torch.xlogy(x, x.abs() + 0.3),
    "entropy": lambda x: torch.special.entr(x.sigmoid()),
    "atanh": lambda x: torch.atanh(x.clamp(-0.9, 0.9)),
    "acosh": lambda x: torch.acosh(x.abs() + 1.2),
    "copysign": lambda x: torch.copysign(x.abs() + 0.1, x - 0.2),
    "heaviside": lambda x: torch.heaviside(x, torch.tensor(0.5)),
    "nan_mean": lambda x: torch.where(x > 2, torch.nan, x).nanmean(-1),
    "masked_change": lambda x: _changed(x, x > 0.1, lambda some: some.tanh() * 2),
    "masked_scatter": lambda x: x.masked_scatter(x > 0, x.flip(0) * 0.5),
    "complex_size": lambda x: torch.fft.rfft(x).abs(),
    "there_and_back": lambda x: torch.fft.irfft(torch.fft.rfft(x) * 0.5, n=x.shape[-1]),
}
"""Of one value."""

MATRICES: dict[str, Any] = {
    "inverse": lambda x: torch.linalg.inv(x @ x.mT + torch.eye(x.shape[-2])),
    "solved": lambda x: torch.linalg.solve(x @ x.mT + torch.eye(x.shape[-2]), x),
    "log_determinant": lambda x: torch.linalg.slogdet(x @ x.mT + torch.eye(x.shape[-2])).logabsdet,
    "cholesky": lambda x: torch.linalg.cholesky(x @ x.mT + torch.eye(x.shape[-2])),
    "covariance": lambda x: x.mT @ x / x.shape[-2],
    "diagonal": lambda x: x.diagonal(dim1=-2, dim2=-1),
    "diagonal_matrix": lambda x: torch.diag_embed(x, 1),
    "distances": lambda x: torch.cdist(x, x.roll(1, -2) + 0.5),
    "cross_distances": lambda x: torch.cdist(x, x.flip(-1) + 1, p=1.0),
}
"""Of the last two axes."""


def _changed(x: Tensor, mask: Tensor, change: Any) -> Tensor:
    y = x.clone()
    y[mask] = change(x[mask])
    return y


def _floats(rng: Random, x: Tensor) -> Options | None:
    return {} if is_float(x) and x.dim() else None


def _matrices(rng: Random, x: Tensor) -> Options | None:
    return {} if is_float(x, 2, 3, 4) and max(x.shape[-2:]) <= 12 and min(x.shape[-2:]) <= 6 else None


def _rows(rng: Random, x: Tensor) -> Options | None:
    return {"threshold": rng.choice((-0.2, 0.0, 0.3))} if is_float(x, 2, 3) and x.shape[-1] >= 2 else None


class _RowsOf(nn.Module):
    """Rows that a mask of their means selects go through a layer, and back to their positions."""

    def __init__(self, features: int, threshold: float):
        super().__init__()
        self.layer, self.threshold = nn.Linear(features, features), threshold

    def forward(self, x: Tensor) -> Tensor:
        return _changed(x, x.mean(-1) > self.threshold, self.layer)


def _reduced(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x) or not 1 <= x.dim() <= 4:
        return None
    axis = rng.randrange(x.dim())
    return {
        "dim": axis,
        "index": tuple(rng.randrange(x.shape[axis]) for _ in range(rng.randint(1, 5))),
        "reduce": rng.choice(("mean", "amax", "amin", "prod")),
        "include_self": rng.random() < 0.6,
        "operator": rng.choice(("index_reduce", "scatter_reduce", "index_add", "index_copy", "index_fill")),
    }


def _make_reduced(x: Tensor, dim: int, index: tuple[int, ...], reduce: str, include_self: bool, operator: str) -> Any:
    positions = torch.tensor(index)
    if operator in ("index_copy", "index_fill"):
        positions = positions.unique()  # the result of several writes to one position is undefined

    def written(value: Tensor) -> Tensor:
        source = value.index_select(dim, positions).clamp(-2, 2) * 0.7 + 0.4
        if operator == "index_reduce":
            return value.index_reduce(dim, positions, source, reduce, include_self=include_self)
        if operator == "scatter_reduce":
            shape = [-1 if axis == dim else 1 for axis in range(value.dim())]
            spread = positions.view(shape).expand(source.shape)
            return value.scatter_reduce(dim, spread, source, reduce, include_self=include_self)
        if operator == "index_fill":
            return value.index_fill(dim, positions, 0.3)
        return getattr(value, operator)(dim, positions, source)

    return written


def _unpooled(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x, 3, 4, 5) or min(x.shape[2:]) < 3:
        return None
    return {
        "kernel_size": rng.choice((2, 3)),
        "stride": rng.choice((2, 3)),
        "padding": rng.choice((0, 0, 1)),
        "gives": rng.choice(("unpooled", "unpooled", "places")),
    }


def _make_unpooled(x: Tensor, gives: str, **options: Any) -> Any:
    axes = x.dim() - 2
    pool, unpool = getattr(F, f"max_pool{axes}d"), getattr(F, f"max_unpool{axes}d")
    if options["padding"] * 2 > options["kernel_size"] or options["stride"] < options["kernel_size"]:
        options = {**options, "padding": 0, "stride": options["kernel_size"]}  # each position at most once

    def both(value: Tensor) -> Tensor:
        largest, positions = pool(value, **options, return_indices=True)
        return unpool(largest, positions, **options, output_size=value.shape[2:]) if gives == "unpooled" else positions

    return both


def _sampled(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x, 4, 5) or x.shape[0] > 2:
        return None
    return {
        "mode": rng.choice(("bilinear", "bilinear", "nearest", "bicubic" if x.dim() == 4 else "bilinear")),
        "padding_mode": rng.choice(("zeros", "border", "reflection")),
        "align_corners": rng.random() < 0.5,
    }


def _make_sampled(x: Tensor, **options: Any) -> Any:
    axes = x.dim() - 2
    turn = torch.eye(axes, axes + 1) * 1.1 + torch.randn(axes, axes + 1) * 0.15
    size = [x.shape[0], x.shape[1], *(extent + 1 for extent in x.shape[2:])]

    def warped(value: Tensor) -> Tensor:
        shift = value.mean((*range(1, value.dim()),)).tanh().view(-1, 1, 1) * 0.1
        grid = F.affine_grid(turn + shift, size, align_corners=options["align_corners"])
        return F.grid_sample(value, grid, **options)

    return warped


def _pooled(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x, 3, 4, 5):
        return None
    return {"size": rng.choice((1, 2, 3, 5)), "kind": rng.choice(("max", "avg", "lp"))}


def _make_pooled(x: Tensor, size: int, kind: str) -> Any:
    axes = x.dim() - 2
    if kind == "lp":
        return lambda value: getattr(F, f"lp_pool{axes}d")(value.abs() + 0.1, 2.0, 2)
    return lambda value: getattr(F, f"adaptive_{kind}_pool{axes}d")(value, size)


def _folded(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x, 4) or min(x.shape[2:]) < 3:
        return None
    return {"kernel_size": rng.choice((2, 3)), "stride": rng.choice((1, 2)), "padding": rng.choice((0, 1))}


def _make_folded(x: Tensor, **options: Any) -> Any:
    return lambda value: F.fold(F.unfold(value, **options).tanh(), value.shape[2:], **options)


def _places(rng: Random, x: Tensor) -> Options | None:
    return {"right": rng.random() < 0.5} if is_float(x) and x.dim() else None


KINDS: dict[str, Kind] = {
    **{name: Kind(_floats, lambda x, f=function: f, weight=0.25) for name, function in FUNCTIONS.items()},
    **{name: Kind(_matrices, lambda x, f=function: f, weight=0.4) for name, function in MATRICES.items()},
    "rows_of": Kind(_rows, lambda x, threshold: _RowsOf(x.shape[-1], threshold), weight=1),
    "written": Kind(_reduced, _make_reduced, weight=2.5),
    "unpooled": Kind(_unpooled, _make_unpooled, weight=2),
    "warped": Kind(_sampled, _make_sampled, weight=2),
    "pooled": Kind(_pooled, _make_pooled, weight=1),
    "folded": Kind(_folded, _make_folded, weight=0.7),
    "bucketize": Kind(
        _places,
        lambda x, right: lambda value: torch.bucketize(value, torch.tensor([-1.0, -0.2, 0.1, 0.9]), right=right),
        weight=0.4,
    ),
    "logcumsumexp": Kind(
        lambda rng, x: {"dim": rng.randrange(x.dim())} if is_float(x) and x.dim() else None,
        lambda x, dim: lambda value: value.logcumsumexp(dim),
        weight=0.3,
    ),
    "running_maxima": Kind(
        lambda rng, x: {"dim": rng.randrange(x.dim())} if is_float(x) and x.dim() else None,
        lambda x, dim: lambda value: value.cummax(dim).values,
        weight=0.3,
    ),
    "quantile": Kind(
        lambda rng, x: (
            {"q": rng.choice((0.1, 0.5, 0.75)), "dim": rng.randrange(x.dim())} if is_float(x) and x.dim() else None
        ),
        lambda x, **options: lambda value: value.quantile(**options),
        weight=0.3,
    ),
    "bilinear": Kind(
        lambda rng, x: {"out": rng.choice((1, 3))} if is_float(x, 2, 3) and x.shape[-1] <= 16 else None,
        lambda x, y, out: nn.Bilinear(x.shape[-1], y.shape[-1], out),
        same_shape,
        weight=0.5,
    ),
    "masked_choice": Kind(
        lambda rng, x: {} if is_float(x) and x.dim() else None,
        lambda x, y: lambda value, other: _changed(value, other > 0, lambda some: some * 0.5 - 0.2),
        same_shape,
        weight=1,
    ),
}
"""By name."""
