"""Views: writing through diagonals (``x.diagonal().zero_()``) and strides (``x.fill_diagonal_(1)``), and sliding windows.

PyTorch takes the first apart into a copy in place, which its own export refuses, and the second not at all. Sliding windows become a
view by strides, which a dynamic dimension leaves unknown.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def _diagonal_scatter(data: Tensor, source: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A choice between both, with the source spread over the rows or columns of its elements."""
    matrices = data.movedim((dim1, dim2), (-2, -1))
    rows, columns = (torch.arange(extent) for extent in matrices.shape[-2:])
    is_written = columns - rows[:, None] == offset
    across = -1 if offset >= 0 else -2
    places = (rows if offset >= 0 else columns).clamp(max=source.shape[-1] - 1)
    spread = source.index_select(-1, places).unsqueeze(across)
    return torch.where(is_written, spread, matrices).movedim((-2, -1), (dim1, dim2))


def _as_strided_scatter(
    data: Tensor, source: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Any:
    """By places in the flat tensor; NotImplemented where the tensor does not lie in memory in its order."""
    if not data.is_contiguous():
        return NotImplemented
    places = torch.full((), storage_offset or 0)
    for extent, step in zip(size, stride, strict=True):
        places = places[..., None] + torch.arange(extent) * step
    return data.flatten().scatter(0, places.flatten(), source.flatten()).view(data.shape)


def _sliding_windows(data: Tensor, dimension: int, size: int, step: int) -> Any:
    """By positions along the axis where a dimension is dynamic."""
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
