"""The k-th value and medians, along an axis or of all values.

NaN counts as the largest value, as PyTorch has it.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def kth_value(data: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The k-th value in ascending order, from 1 on, and its place."""
    found = (one.narrow(dim, k - 1, 1) for one in torch.sort(data, dim))
    values, places = (one if keepdim else one.squeeze(dim) for one in found)
    return values, places


def _median(data: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """The lower one of the two in the middle; NaN where there is one."""
    if not isinstance(data.shape[dim], int):
        return NotImplemented
    value, place = kth_value(data, (data.shape[dim] + 1) // 2, dim, keepdim)
    if not data.is_floating_point():
        return value, place
    missing = data.isnan()
    is_missing = missing.any(dim, keepdim)
    first = missing.to(torch.int32).argmax(dim, keepdim)
    return torch.where(is_missing, torch.nan, value), torch.where(is_missing, first, place)


def _median_without_nan(data: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    if not data.is_floating_point():
        return _median(data, dim, keepdim)
    if not isinstance(data.shape[dim], int):
        return NotImplemented
    values, places = torch.sort(data, dim)
    count = (~data.isnan()).to(torch.int64).sum(dim, keepdim=True)
    middle = ((count - 1) // 2).clamp(min=0)
    found = (one.gather(dim, middle) for one in (values, places))
    value, place = (one if keepdim else one.squeeze(dim) for one in found)
    return value, place


def _of_all(of_axis: Callable[..., Any]) -> Callable[[Tensor], Any]:
    def of_all(data: Tensor) -> Any:
        return of_axis(data.reshape(-1))[0] if isinstance(data.numel(), int) else NotImplemented

    return of_all


DECOMPOSITIONS: Mapping[torch._ops.OpOverload, Callable[..., Any]] = {
    aten.kthvalue.default: kth_value,
    aten.median.dim: _median,
    aten.median.default: _of_all(_median),
    aten.nanmedian.dim: _median_without_nan,
    aten.nanmedian.default: _of_all(_median_without_nan),
}
