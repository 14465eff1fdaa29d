"""Decompose the k-th value and medians, along an axis or of all values.

NaN is the largest value, as in PyTorch.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def kth_value(data: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The k-th value in ascending order, from 1, and its index."""
    results = (ordered.narrow(dim, k - 1, 1) for ordered in torch.sort(data, dim))
    value, index = (result if keepdim else result.squeeze(dim) for result in results)
    return value, index


def _median(data: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """The lower of the two middle values; NaN if any value is NaN."""
    if not isinstance(data.shape[dim], int):
        return NotImplemented
    value, index = kth_value(data, (data.shape[dim] + 1) // 2, dim, keepdim)
    if not data.is_floating_point():
        return value, index
    is_nan = data.isnan()
    has_nan = is_nan.any(dim, keepdim)
    first = is_nan.to(torch.int32).argmax(dim, keepdim)
    return torch.where(has_nan, torch.nan, value), torch.where(has_nan, first, index)


def _median_without_nan(data: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    if not data.is_floating_point():
        return _median(data, dim, keepdim)
    if not isinstance(data.shape[dim], int):
        return NotImplemented
    values, indices = torch.sort(data, dim)
    count = (~data.isnan()).to(torch.int64).sum(dim, keepdim=True)
    middle = ((count - 1) // 2).clamp(min=0)
    results = (ordered.gather(dim, middle) for ordered in (values, indices))
    value, index = (result if keepdim else result.squeeze(dim) for result in results)
    return value, index


def _flatten_first(compute: Callable[..., Any]) -> Callable[[Tensor], Any]:
    def compute_flat(data: Tensor) -> Any:
        return compute(data.reshape(-1))[0] if isinstance(data.numel(), int) else NotImplemented

    return compute_flat


DECOMPOSITIONS: Mapping[torch._ops.OpOverload, Callable[..., Any]] = {
    aten.kthvalue.default: kth_value,
    aten.median.dim: _median,
    aten.median.default: _flatten_first(_median),
    aten.nanmedian.dim: _median_without_nan,
    aten.nanmedian.default: _flatten_first(_median_without_nan),
}
