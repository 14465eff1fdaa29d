"""Operators taken apart into simpler ones, where neither PyTorch nor TVM does.

Each function computes what the operator does, with operators that TVM's importer has and gets right. What it cannot do for open
extents stays as it is, and is refused.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


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


def _norm_of_wide_weights(norm: torch._ops.OpOverload, position: int) -> Callable[..., Any]:
    """A norm whose weights have more bits than its data (as under ``torch.autocast``), computed in their type; with more results than one.

    Args:
        norm: the operator.
        position: of the weight among its arguments; the bias follows.
    """

    def normalized(data: Tensor, *others: Any, **named: Any) -> Any:
        weights = [one for one in others[position - 1 : position + 1] if one is not None]
        wide = next((one.dtype for one in weights if one.dtype != data.dtype), None)
        if wide is None:
            return NotImplemented
        found, *statistics = norm(data.to(wide), *others, **named)
        return found.to(data.dtype), *statistics

    return normalized


def _extreme_number(extreme: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Any]:
    """What is no number counts only where neither is one."""

    def compute(left: Tensor, right: Tensor) -> Tensor:
        found = extreme(left, right)
        if not found.is_floating_point():
            return found
        left, right = left.to(found.dtype), right.to(found.dtype)
        return torch.where(left.isnan(), right, torch.where(right.isnan(), left, found))

    return compute


def _log_cumulative_sum_of_exponentials(data: Tensor, dim: int) -> Any:
    if not isinstance(data.shape[dim], int):
        return NotImplemented
    (found,) = _scanned((data,), dim, lambda earlier, later: (_log_sum_of_exponentials(earlier[0], later[0]),))
    return found


def _log_sum_of_exponentials(left: Tensor, right: Tensor) -> Tensor:
    """Of two values; infinite ones that are equal have no difference."""
    spread = torch.log1p(torch.exp(-(left - right).abs()))
    return torch.where(left == right, left + math.log(2), torch.maximum(left, right) + spread)


def _running(is_beyond: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, int], Any]:
    """The largest or smallest value so far, and its last place."""

    def combined(earlier: Parts, later: Parts) -> Parts:
        keeps = is_beyond(earlier[0], later[0])
        return tuple(torch.where(keeps, *parts) for parts in zip(earlier, later, strict=True))

    def running(data: Tensor, dim: int) -> Any:
        if not isinstance(data.shape[dim], int):
            return NotImplemented  # how many steps there are would depend on the example's extent
        places = torch.arange(data.shape[dim]).reshape(
            [-1 if axis == dim % data.ndim else 1 for axis in range(data.ndim)]
        )
        return _scanned((data, places.expand_as(data)), dim, combined)

    return running


Parts = tuple[Tensor, ...]


def _scanned(parts: Parts, dim: int, combine: Callable[[Parts, Parts], Parts]) -> Parts:
    """Each element combined with all before it along an axis, in steps of 1, 2, 4 … (Hillis and Steele, "Data parallel algorithms", 1986)."""
    count, step = parts[0].shape[dim], 1
    while step < count:
        earlier, later = (tuple(part.narrow(dim, first, count - step) for part in parts) for first in (0, step))
        ends = combine(earlier, later)
        parts = tuple(torch.cat([part.narrow(dim, 0, step), end], dim) for part, end in zip(parts, ends, strict=True))
        step *= 2
    return parts


def _is_negative(data: Tensor) -> Tensor:
    return (data < 0) | ((data == 0) & (1 / data < 0)) if data.is_floating_point() else data < 0


MEANS, MAXIMA = 1, 2
"""Modes of embedding bags; 0 sums up."""


def _embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sums, means or maxima of rows of a table, of which each bag takes the next few."""
    starts = offsets[:-1] if include_last_offset else offsets
    places = torch.arange(indices.shape[0], dtype=offsets.dtype)
    bags = (starts.unsqueeze(0) <= places.unsqueeze(1)).to(torch.int64).sum(1) - 1
    takes = (bags.unsqueeze(0) == torch.arange(starts.shape[0]).unsqueeze(1)).to(weight.dtype)
    if padding_idx >= 0:
        takes = takes * (indices != padding_idx).to(weight.dtype)
    counts = takes.sum(1, keepdim=True)
    if mode == MAXIMA:
        values = torch.where(takes.unsqueeze(-1) > 0, weight[indices], -math.inf).amax(1)
        return torch.where(counts > 0, values, 0.0), bags, counts.squeeze(1).to(offsets.dtype), bags
    if per_sample_weights is not None:
        takes = takes * per_sample_weights
    found = takes @ weight[indices]
    found = found / counts.clamp(min=1) if mode == MEANS else found
    return found, bags, counts.squeeze(1).to(offsets.dtype), bags


def _products_of_three(
    first: Tensor,
    second: Tensor,
    third: Tensor,
    expand_first: Sequence[int],
    expand_second: Sequence[int],
    expand_third: Sequence[int],
    summed: Sequence[int],
    _unroll: int = 1,
) -> Tensor:
    factors = []
    for factor, axes in ((first, expand_first), (second, expand_second), (third, expand_third)):
        for axis in sorted(axes):
            factor = factor.unsqueeze(axis)
        factors.append(factor)
    return (factors[0] * factors[1] * factors[2]).sum(list(summed))


def _rounded_to_steps(
    data: Tensor, scale: float | Tensor, zero_point: int | Tensor, low: int, high: int
) -> tuple[Tensor, Tensor]:
    steps = torch.round(data * (1.0 / scale)) + zero_point
    return (steps.clamp(low, high) - zero_point) * scale, (steps >= low) & (steps <= high)


def _rounded_to_steps_by_channel(
    data: Tensor, scale: Tensor, zero_point: Tensor, axis: int, low: int, high: int
) -> tuple[Tensor, Tensor]:
    shape = [-1 if each == axis else 1 for each in range(data.ndim)]
    return _rounded_to_steps(data, scale.reshape(shape), zero_point.reshape(shape), low, high)


def _rounded_to_steps_where_enabled(
    data: Tensor, scale: Tensor, zero_point: Tensor, enabled: Tensor, low: int, high: int
) -> tuple[Tensor, Tensor]:
    rounded, mask = _rounded_to_steps(data, scale, zero_point, low, high)
    return torch.where(enabled != 0, rounded, data), mask


def _overlapped(pieces: Tensor, sizes: Sequence[int], dim: int, size: int, step: int) -> Any:
    """The sum of pieces that each begin a step after the one before: a transposed convolution that passes them on."""
    dim %= len(sizes)
    if not all(isinstance(extent, int) for extent in (sizes[dim], size, step)):
        return NotImplemented
    columns = pieces.movedim(dim, -1)  # [others, size, pieces]
    others = columns.shape[:-2]
    columns = columns.reshape(-1, size, columns.shape[-1])
    found = torch.conv_transpose1d(columns, torch.eye(size, dtype=pieces.dtype).unsqueeze(1), stride=step)
    found = torch.constant_pad_nd(found, [0, sizes[dim] - found.shape[-1]])
    return found.reshape(*others, sizes[dim]).movedim(-1, dim)


def _normalized_without_statistics(
    data: Tensor, weight: Tensor | None, bias: Tensor | None, _training: bool, _momentum: float, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """By the mean and variance of a batch; TVM has that of one sample, an instance norm."""
    if all(isinstance(extent, int) for extent in data.shape[:2]) and data.shape[0] == 1:
        return NotImplemented
    axes = [axis for axis in range(data.dim()) if axis != 1]
    variance, mean = torch.var_mean(data, axes, correction=0, keepdim=True)
    scale = torch.rsqrt(variance + epsilon)
    found, shape = (data - mean) * scale, [-1 if axis == 1 else 1 for axis in range(data.dim())]
    found = found if weight is None else found * weight.reshape(shape)
    return found if bias is None else found + bias.reshape(shape), mean.flatten(), scale.flatten()


def _zeros_of_batch(data: Tensor, other: Tensor, *, self_num_batch_dims: int = 0) -> Tensor:
    return torch.zeros([*data.shape[:self_num_batch_dims], *other.shape], dtype=other.dtype)


def _scatter_reduced(
    data: Tensor, axis: int, places: Tensor, source: Tensor, reduction: str, *, include_self: bool = True
) -> Tensor:
    """Means, and what replaces the values that it is written over."""
    if include_self and reduction != "mean":
        return NotImplemented
    if not include_self:
        data = data.scatter(axis, places, _identity(reduction, data.dtype))
    if reduction != "mean":
        return data.scatter_reduce(axis, places, source, reduction)
    total = data.scatter_add(axis, places, source)
    counts = torch.full_like(data, float(include_self)).scatter_add(axis, places, torch.ones_like(source)).clamp(min=1)
    return total / counts if data.is_floating_point() else total.div(counts, rounding_mode="floor")


def _rows_reduced(
    data: Tensor, axis: int, places: Tensor, source: Tensor, reduction: str, *, include_self: bool = True
) -> Tensor:
    shape = [-1 if each == axis % data.ndim else 1 for each in range(data.ndim)]
    places = places.reshape(shape).expand(source.shape)
    return data.scatter_reduce(axis, places, source, reduction, include_self=include_self)


def _identity(reduction: str, dtype: torch.dtype) -> float:
    """What changes nothing when it is combined with other values."""
    if reduction in ("amax", "amin") and dtype.is_floating_point:
        return -math.inf if reduction == "amax" else math.inf
    limits = {} if dtype.is_floating_point else {"amax": torch.iinfo(dtype).min, "amin": torch.iinfo(dtype).max}
    return {"sum": 0, "mean": 0, "prod": 1, **limits}[reduction]


DECOMPOSITIONS: Mapping[torch._ops.OpOverload, Callable[..., Any]] = {
    aten._cdist_forward.default: _distances,
    aten._pdist_forward.default: _distances_of_pairs,
    aten.unfold_backward.default: _overlapped,
    aten.searchsorted.Tensor: _search_sorted,
    aten.bucketize.Tensor: _bucketize,
    aten.masked_scatter.default: _masked_scatter,
    aten._native_batch_norm_legit.no_stats: _normalized_without_statistics,
    aten.native_layer_norm.default: _norm_of_wide_weights(aten.native_layer_norm.default, 2),
    aten.native_group_norm.default: _norm_of_wide_weights(aten.native_group_norm.default, 1),
    aten._native_batch_norm_legit_no_training.default: _norm_of_wide_weights(
        aten._native_batch_norm_legit_no_training.default, 1
    ),
    aten.scatter_reduce.two: _scatter_reduced,
    aten.index_reduce.default: _rows_reduced,
    aten._new_zeros_with_same_feature_meta.default: _zeros_of_batch,
    aten.rrelu_with_noise.default: _rrelu,
    aten.rrelu_with_noise_functional.default: _rrelu_functional,
    aten.logcumsumexp.default: _log_cumulative_sum_of_exponentials,
    aten.cummax.default: _running(torch.gt),
    aten.cummin.default: _running(torch.lt),
    aten.signbit.default: _is_negative,
    aten.copysign.Tensor: lambda data, sign: torch.where(_is_negative(sign), -data.abs(), data.abs()),
    aten.exp2.default: lambda data: torch.pow(2.0, data),
    aten.fmax.default: _extreme_number(torch.maximum),
    aten.fmin.default: _extreme_number(torch.minimum),
    aten._embedding_bag.default: _embedding_bag,
    aten._embedding_bag_forward_only.default: _embedding_bag,
    aten._trilinear.default: _products_of_three,
    aten.fake_quantize_per_tensor_affine_cachemask.default: _rounded_to_steps,
    aten.fake_quantize_per_channel_affine_cachemask.default: _rounded_to_steps_by_channel,
    aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: _rounded_to_steps_where_enabled,
}
