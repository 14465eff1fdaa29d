"""Operators taken apart into simpler ones, where neither PyTorch nor TVM does.

Each function computes what the operator does, with operators that TVM's importer has and gets right.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx

aten = torch.ops.aten

LANCZOS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip
"""Coefficients for g = 7 (P. Godfrey, after C. Lanczos, "A precision approximation of the gamma function", 1964)."""
LANCZOS_G = 7


def _distances(left: Tensor, right: Tensor, p: float, _mode: int | None = None) -> Tensor:
    difference = (left.unsqueeze(-2) - right.unsqueeze(-3)).abs()
    if p == 0:
        return (difference != 0).to(left.dtype).sum(-1)
    if p == 1:
        return difference.sum(-1)
    if math.isinf(p):
        return difference.amax(-1)
    return (difference * difference).sum(-1).sqrt() if p == 2 else difference.pow(p).sum(-1).pow(1 / p)


def _distances_of_pairs(data: Tensor, p: float = 2.0) -> Tensor:
    rows, columns = torch.triu_indices(data.shape[0], data.shape[0], 1)
    return _distances(data, data, p)[rows, columns]


def _kth_value(data: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    found = (one.narrow(dim, k - 1, 1) for one in torch.sort(data, dim))
    values, places = (one if keepdim else one.squeeze(dim) for one in found)
    return values, places


def _median(data: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The lower one of the two in the middle."""
    return _kth_value(data, (data.shape[dim] + 1) // 2, dim, keepdim)


def _median_of_all(data: Tensor) -> Tensor:
    return _median(data.reshape(-1))[0]


def _search_sorted(
    ordered: Tensor,
    values: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """The place of a value is the number of those before it."""
    if sorter is not None:
        ordered = ordered.gather(-1, sorter)
    ordered = ordered if ordered.ndim == 1 else ordered.unsqueeze(-2)
    is_before = ordered <= values.unsqueeze(-1) if right or side == "right" else ordered < values.unsqueeze(-1)
    return is_before.to(torch.int32 if out_int32 else torch.int64).sum(
        -1, dtype=torch.int32 if out_int32 else torch.int64
    )


def _bucketize(values: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    return _search_sorted(boundaries, values, out_int32=out_int32, right=right)


def _masked_scatter(data: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The n-th place where the mask holds takes the n-th value."""
    mask = mask.expand_as(data)
    numbers = mask.reshape(-1).to(torch.int64).cumsum(0) - 1
    taken = source.reshape(-1)[numbers.clamp(0, source.numel() - 1)].reshape(data.shape)
    return torch.where(mask, taken, data)


def _rrelu(data: Tensor, noise: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, *_: Any, **__: Any) -> Tensor:
    """Of a network in use, where the slope is the middle one."""
    return torch.where(data >= 0, data, data * ((lower + upper) / 2))


def _rrelu_functional(data: Tensor, noise: Tensor, *others: Any, **named: Any) -> tuple[Tensor, Tensor]:
    return _rrelu(data, noise, *others, **named), noise


def _log_gamma(data: Tensor) -> Tensor:
    """By Lanczos' approximation; below a half by Euler's reflection formula."""
    positive = torch.where(data < 0.5, 1 - data, data) - 1
    total = torch.full_like(positive, LANCZOS[0])
    for number, coefficient in enumerate(LANCZOS[1:], 1):
        total = total + coefficient / (positive + number)
    base = positive + LANCZOS_G + 0.5
    found = 0.5 * math.log(2 * math.pi) + (positive + 0.5) * base.log() - base + total.log()
    sine = torch.sin(math.pi * (data - data.floor())).abs()
    return torch.where(data < 0.5, math.log(math.pi) - sine.log() - found, found)


def _max_pool_with_places(
    data: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """Maxima over windows, and where in the picture they are: every window's places are known."""
    kernel, pads, steps = _two(kernel_size), _two(padding), _two(dilation)
    strides = _two(stride) if stride else kernel
    height, width = data.shape[-2:]
    rows, columns = (
        _windows(extent, *sizes, ceil_mode)
        for extent, sizes in zip((height, width), zip(kernel, strides, pads, steps, strict=True), strict=True)
    )
    shape = (len(rows), len(columns), kernel[0] * kernel[1])
    row = rows[:, None, :, None].expand(*shape[:2], *kernel)
    column = columns[None, :, None, :].expand_as(row)
    places = (row * width + column).reshape(shape)
    values = data.flatten(-2)[..., places.reshape(-1)].reshape(*data.shape[:-2], *shape)
    first = values.argmax(-1)
    numbers = torch.arange(shape[0] * shape[1]).reshape(shape[:2]) * shape[2]
    return values.amax(-1), places.reshape(-1)[first + numbers]


def _windows(extent: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> Tensor:
    """The coordinates of each window along an axis, those outside of the picture moved to the window's nearest inside."""
    spare = extent + 2 * padding - dilation * (kernel - 1) - 1
    count = (spare + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (count - 1) * stride >= extent + padding:
        count -= 1  # the last window has to begin within the picture or the padding before it
    first = torch.arange(count).unsqueeze(1) * stride - padding
    steps = torch.minimum(torch.arange(kernel), (extent - 1 - first) // dilation)
    return first + torch.maximum(steps, -(first // dilation)) * dilation


def _two(sizes: int | Sequence[int]) -> tuple[int, int]:
    given = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    return (given[0], given[-1])


DECOMPOSITIONS: Mapping[torch._ops.OpOverload, Callable[..., Any]] = {
    aten._cdist_forward.default: _distances,
    aten._pdist_forward.default: _distances_of_pairs,
    aten.kthvalue.default: _kth_value,
    aten.median.dim: _median,
    aten.median.default: _median_of_all,
    aten.searchsorted.Tensor: _search_sorted,
    aten.bucketize.Tensor: _bucketize,
    aten.masked_scatter.default: _masked_scatter,
    aten.rrelu_with_noise.default: _rrelu,
    aten.rrelu_with_noise_functional.default: _rrelu_functional,
    aten.lgamma.default: _log_gamma,
}

PLACES: Mapping[torch._ops.OpOverload, Callable[..., Any]] = {
    aten.max_pool2d_with_indices.default: _max_pool_with_places,
}
"""For programs that ask where the maxima are: TVM's importer gives zeros."""


def asks_for_places(node: fx.Node) -> bool:
    """Whether a pooling's second result is used."""
    return node.target in PLACES and any(user.args[1] != 0 and user.users for user in node.users)
