"""Positions of nonzero elements, and writes at positions in the flattened tensor."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def _nonzero_static(data: Tensor, *, size: int, fill_value: int = -1) -> Any:
    """The positions of the first nonzero elements, ``[size, axes]``. Further ones are written to a row that is sliced off."""
    if not all(isinstance(extent, int) for extent in (*data.shape, size)):
        return NotImplemented
    is_nonzero = (data != 0).reshape(-1)
    number = is_nonzero.to(torch.int64).cumsum(0) - 1
    row = torch.where(is_nonzero & (number < size), number, size)
    strides = [math.prod(data.shape[axis + 1 :]) for axis in range(data.ndim)]
    flat = torch.arange(data.numel())
    columns = [flat // stride % extent for stride, extent in zip(strides, data.shape, strict=True)]
    positions = torch.full((size + 1, data.ndim), fill_value)
    return positions.index_put([row], torch.stack(columns, 1))[:size]


def _put(data: Tensor, indices: Tensor, values: Tensor, accumulate: bool = False) -> Tensor:
    """Write values at indices of the flattened tensor."""
    flat = data.reshape(-1).index_put([indices.reshape(-1)], values.reshape(-1), accumulate)
    return flat.reshape(data.shape)


DECOMPOSITIONS: Mapping[torch._ops.OpOverload, Callable[..., Any]] = {
    aten.nonzero_static.default: _nonzero_static,
    aten.put.default: _put,
}
