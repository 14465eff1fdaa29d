"""Decompose writes through diagonals (``x.diagonal().zero_()``) and strides (``x.fill_diagonal_(1)``), and sliding windows.

PyTorch decomposes the first into an in-place copy, which its own export refuses, and does not decompose the second.
It decomposes sliding windows into a strided view, whose strides are unknown for dynamic dimensions.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def _diagonal_scatter(data: Tensor, source: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Select between both tensors, with the source broadcast along rows or columns."""
    matrices = data.movedim((dim1, dim2), (-2, -1))
    rows, columns = (torch.arange(extent) for extent in matrices.shape[-2:])
    is_written = columns - rows[:, None] == offset
    across = -1 if offset >= 0 else -2
    indices = (rows if offset >= 0 else columns).clamp(max=source.shape[-1] - 1)
    values = source.index_select(-1, indices).unsqueeze(across)
    return torch.where(is_written, values, matrices).movedim((-2, -1), (dim1, dim2))


def _as_strided_scatter(
    data: Tensor, source: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Any:
    """Write at offsets in the flattened tensor; NotImplemented if the tensor is not contiguous."""
    if not data.is_contiguous():
        return NotImplemented
    offsets = torch.full((), storage_offset or 0)
    for extent, step in zip(size, stride, strict=True):
        offsets = offsets[..., None] + torch.arange(extent) * step
    return data.flatten().scatter(0, offsets.flatten(), source.flatten()).view(data.shape)


def _sliding_windows(data: Tensor, dimension: int, size: int, step: int) -> Any:
    """If a dimension is dynamic, look up positions along the axis."""
    if all(isinstance(extent, int) for extent in data.shape):
        return torch._refs.unfold(data, dimension, size, step)
    axis = dimension % data.dim()
    count = (data.shape[axis] - size) // step + 1
    positions = torch.arange(count)[:, None] * step + torch.arange(size)
    windows = data.index_select(axis, positions.flatten())
    return windows.reshape(*data.shape[:axis], count, size, *data.shape[axis + 1 :]).movedim(axis + 1, -1)


DECOMPOSITIONS: Mapping[torch._ops.OpOverload, Callable[..., Any]] = {
    aten.diagonal_scatter.default: _diagonal_scatter,
    aten.as_strided_scatter.default: _as_strided_scatter,
    aten.unfold.default: _sliding_windows,
}
