"""Decompositions of operators that neither PyTorch nor TVM decomposes.

Each function is equivalent to its operator, and uses operators that TVM's importer converts correctly. It returns
NotImplemented for unsupported dynamic dimensions, and the operator is then refused.
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


def _pairwise_distances(data: Tensor, p: float = 2.0) -> Tensor:
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
    """The insertion index of a value is the number of elements before it."""
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
    """The n-th masked element takes the n-th value."""
    mask = mask.expand_as(data)
    numbers = mask.reshape(-1).to(torch.int64).cumsum(0) - 1
    values = source.reshape(-1)[numbers.clamp(0, source.numel() - 1)].reshape(data.shape)
    return torch.where(mask, values, data)


def _rrelu(data: Tensor, noise: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, *_: Any, **__: Any) -> Tensor:
    """In inference, the slope is the mean of the bounds."""
    return torch.where(data >= 0, data, data * ((lower + upper) / 2))


def _rrelu_functional(data: Tensor, noise: Tensor, *others: Any, **named: Any) -> tuple[Tensor, Tensor]:
    return _rrelu(data, noise, *others, **named), noise


def _norm_in_weight_dtype(norm: torch._ops.OpOverload, position: int) -> Callable[..., Any]:
    """Compute a norm in the dtype of its weights if that is wider than its data's, as under ``torch.autocast``.

    Args:
        norm: an operator with several results.
        position: the weight's position among its arguments; the bias follows.
    """

    def normalize(data: Tensor, *others: Any, **named: Any) -> Any:
        weights = [weight for weight in others[position - 1 : position + 1] if weight is not None]
        wide = next((weight.dtype for weight in weights if weight.dtype != data.dtype), None)
        if wide is None:
            return NotImplemented
        result, *statistics = norm(data.to(wide), *others, **named)
        return result.to(data.dtype), *statistics

    return normalize


def _extreme_number(extreme: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Any]:
    """A maximum or minimum that is NaN only if both operands are."""

    def compute(left: Tensor, right: Tensor) -> Tensor:
        result = extreme(left, right)
        if not result.is_floating_point():
            return result
        left, right = left.to(result.dtype), right.to(result.dtype)
        return torch.where(left.isnan(), right, torch.where(right.isnan(), left, result))

    return compute


def _log_cumulative_sum_of_exponentials(data: Tensor, dim: int) -> Any:
    if not isinstance(data.shape[dim], int):
        return NotImplemented
    (result,) = _scan((data,), dim, lambda earlier, later: (_log_sum_of_exponentials(earlier[0], later[0]),))
    return result


def _log_sum_of_exponentials(left: Tensor, right: Tensor) -> Tensor:
    """The logarithm of ``exp(left) + exp(right)``. Equal values are a case of their own, because infinities have no difference."""
    spread = torch.log1p(torch.exp(-(left - right).abs()))
    return torch.where(left == right, left + math.log(2), torch.maximum(left, right) + spread)


def _cumulative_extreme(is_beyond: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, int], Any]:
    """The cumulative maximum or minimum, and its last index."""

    def combine(earlier: Parts, later: Parts) -> Parts:
        keeps = is_beyond(earlier[0], later[0])
        return tuple(torch.where(keeps, *parts) for parts in zip(earlier, later, strict=True))

    def compute(data: Tensor, dim: int) -> Any:
        if not isinstance(data.shape[dim], int):
            return NotImplemented  # the number of steps would be that of the example
        indices = torch.arange(data.shape[dim]).reshape(
            [-1 if axis == dim % data.ndim else 1 for axis in range(data.ndim)]
        )
        return _scan((data, indices.expand_as(data)), dim, combine)

    return compute


Parts = tuple[Tensor, ...]


def _scan(parts: Parts, dim: int, combine: Callable[[Parts, Parts], Parts]) -> Parts:
    """Combine each element with all before it along an axis, in steps of 1, 2, 4 … (Hillis and Steele, "Data parallel algorithms", 1986)."""
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
"""Modes of embedding bags; 0 is the sum."""


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
    """Sums, means or maxima of consecutive groups of table rows."""
    starts = offsets[:-1] if include_last_offset else offsets
    positions = torch.arange(indices.shape[0], dtype=offsets.dtype)
    bags = (starts.unsqueeze(0) <= positions.unsqueeze(1)).to(torch.int64).sum(1) - 1
    members = (bags.unsqueeze(0) == torch.arange(starts.shape[0]).unsqueeze(1)).to(weight.dtype)
    if padding_idx >= 0:
        members = members * (indices != padding_idx).to(weight.dtype)
    counts = members.sum(1, keepdim=True)
    if mode == MAXIMA:
        values = torch.where(members.unsqueeze(-1) > 0, weight[indices], -math.inf).amax(1)
        return torch.where(counts > 0, values, 0.0), bags, counts.squeeze(1).to(offsets.dtype), bags
    if per_sample_weights is not None:
        members = members * per_sample_weights
    result = members @ weight[indices]
    result = result / counts.clamp(min=1) if mode == MEANS else result
    return result, bags, counts.squeeze(1).to(offsets.dtype), bags


def _trilinear(
    first: Tensor,
    second: Tensor,
    third: Tensor,
    expand_first: Sequence[int],
    expand_second: Sequence[int],
    expand_third: Sequence[int],
    sum_axes: Sequence[int],
    _unroll: int = 1,
) -> Tensor:
    factors = []
    for factor, axes in ((first, expand_first), (second, expand_second), (third, expand_third)):
        for axis in sorted(axes):
            factor = factor.unsqueeze(axis)
        factors.append(factor)
    return (factors[0] * factors[1] * factors[2]).sum(list(sum_axes))


def _fake_quantize(
    data: Tensor, scale: float | Tensor, zero_point: int | Tensor, low: int, high: int
) -> tuple[Tensor, Tensor]:
    steps = torch.round(data * (1.0 / scale)) + zero_point
    return (steps.clamp(low, high) - zero_point) * scale, (steps >= low) & (steps <= high)


def _fake_quantize_channels(
    data: Tensor, scale: Tensor, zero_point: Tensor, axis: int, low: int, high: int
) -> tuple[Tensor, Tensor]:
    shape = [-1 if index == axis else 1 for index in range(data.ndim)]
    return _fake_quantize(data, scale.reshape(shape), zero_point.reshape(shape), low, high)


def _fake_quantize_if_enabled(
    data: Tensor, scale: Tensor, zero_point: Tensor, enabled: Tensor, low: int, high: int
) -> tuple[Tensor, Tensor]:
    rounded, mask = _fake_quantize(data, scale, zero_point, low, high)
    return torch.where(enabled != 0, rounded, data), mask


def _overlap_add(pieces: Tensor, sizes: Sequence[int], dim: int, size: int, step: int) -> Any:
    """The sum of overlapping pieces, each one step after the previous: a transposed convolution with an identity kernel."""
    dim %= len(sizes)
    if not all(isinstance(extent, int) for extent in (sizes[dim], size, step)):
        return NotImplemented
    columns = pieces.movedim(dim, -1)  # [others, size, pieces]
    others = columns.shape[:-2]
    columns = columns.reshape(-1, size, columns.shape[-1])
    result = torch.conv_transpose1d(columns, torch.eye(size, dtype=pieces.dtype).unsqueeze(1), stride=step)
    result = torch.constant_pad_nd(result, [0, sizes[dim] - result.shape[-1]])
    return result.reshape(*others, sizes[dim]).movedim(-1, dim)


def _batch_norm_without_statistics(
    data: Tensor, weight: Tensor | None, bias: Tensor | None, _training: bool, _momentum: float, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalise by the batch's mean and variance. TVM converts a batch of one sample, an instance norm."""
    if all(isinstance(extent, int) for extent in data.shape[:2]) and data.shape[0] == 1:
        return NotImplemented
    axes = [axis for axis in range(data.dim()) if axis != 1]
    variance, mean = torch.var_mean(data, axes, correction=0, keepdim=True)
    scale = torch.rsqrt(variance + epsilon)
    result, shape = (data - mean) * scale, [-1 if axis == 1 else 1 for axis in range(data.dim())]
    result = result if weight is None else result * weight.reshape(shape)
    return result if bias is None else result + bias.reshape(shape), mean.flatten(), scale.flatten()


def _batched_zeros(data: Tensor, other: Tensor, *, self_num_batch_dims: int = 0) -> Tensor:
    return torch.zeros([*data.shape[:self_num_batch_dims], *other.shape], dtype=other.dtype)


def _scatter_reduce(
    data: Tensor, axis: int, indices: Tensor, source: Tensor, reduction: str, *, include_self: bool = True
) -> Tensor:
    """Decompose scatter with a mean, and scatter that excludes the previous values."""
    if include_self and reduction != "mean":
        return NotImplemented
    if not include_self:
        data = data.scatter(axis, indices, _neutral_element(reduction, data.dtype))
    if reduction != "mean":
        return data.scatter_reduce(axis, indices, source, reduction)
    total = data.scatter_add(axis, indices, source)
    counts = torch.full_like(data, float(include_self)).scatter_add(axis, indices, torch.ones_like(source)).clamp(min=1)
    return total / counts if data.is_floating_point() else total.div(counts, rounding_mode="floor")


def _index_reduce(
    data: Tensor, axis: int, indices: Tensor, source: Tensor, reduction: str, *, include_self: bool = True
) -> Tensor:
    shape = [-1 if index == axis % data.ndim else 1 for index in range(data.ndim)]
    indices = indices.reshape(shape).expand(source.shape)
    return data.scatter_reduce(axis, indices, source, reduction, include_self=include_self)


def _neutral_element(reduction: str, dtype: torch.dtype) -> float:
    """The neutral element of a reduction."""
    if reduction in ("amax", "amin") and dtype.is_floating_point:
        return -math.inf if reduction == "amax" else math.inf
    limits = {} if dtype.is_floating_point else {"amax": torch.iinfo(dtype).min, "amin": torch.iinfo(dtype).max}
    return {"sum": 0, "mean": 0, "prod": 1, **limits}[reduction]


def _convolution(*arguments: Any) -> Tensor:
    """As traces call it: the last four arguments choose among libraries."""
    return aten.convolution(*arguments[:9])


DECOMPOSITIONS: Mapping[torch._ops.OpOverload, Callable[..., Any]] = {
    aten._convolution.default: _convolution,
    aten._convolution.deprecated: _convolution,
    aten._cdist_forward.default: _distances,
    aten._pdist_forward.default: _pairwise_distances,
    aten.unfold_backward.default: _overlap_add,
    aten.searchsorted.Tensor: _search_sorted,
    aten.bucketize.Tensor: _bucketize,
    aten.masked_scatter.default: _masked_scatter,
    aten._native_batch_norm_legit.no_stats: _batch_norm_without_statistics,
    aten.native_layer_norm.default: _norm_in_weight_dtype(aten.native_layer_norm.default, 2),
    aten.native_group_norm.default: _norm_in_weight_dtype(aten.native_group_norm.default, 1),
    aten._native_batch_norm_legit_no_training.default: _norm_in_weight_dtype(
        aten._native_batch_norm_legit_no_training.default, 1
    ),
    aten.scatter_reduce.two: _scatter_reduce,
    aten.index_reduce.default: _index_reduce,
    aten._new_zeros_with_same_feature_meta.default: _batched_zeros,
    aten.rrelu_with_noise.default: _rrelu,
    aten.rrelu_with_noise_functional.default: _rrelu_functional,
    aten.logcumsumexp.default: _log_cumulative_sum_of_exponentials,
    aten.cummax.default: _cumulative_extreme(torch.gt),
    aten.cummin.default: _cumulative_extreme(torch.lt),
    aten.signbit.default: _is_negative,
    aten.copysign.Tensor: lambda data, sign: torch.where(_is_negative(sign), -data.abs(), data.abs()),
    aten.exp2.default: lambda data: torch.pow(2.0, data),
    aten.fmax.default: _extreme_number(torch.maximum),
    aten.fmin.default: _extreme_number(torch.minimum),
    aten._embedding_bag.default: _embedding_bag,
    aten._embedding_bag_forward_only.default: _embedding_bag,
    aten._trilinear.default: _trilinear,
    aten.fake_quantize_per_tensor_affine_cachemask.default: _fake_quantize,
    aten.fake_quantize_per_channel_affine_cachemask.default: _fake_quantize_channels,
    aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: _fake_quantize_if_enabled,
}
