"""Positions of nonzero elements, and writes at positions of the flattened tensor."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def _places_of_nonzero(data: Tensor, *, size: int, fill_value: int = -1) -> Any:
    """The first so many places of what is not zero, ``[size, axes]``; what is left over goes to a row that is cut off."""
    if not all(isinstance(extent, int) for extent in (*data.shape, size)):
        return NotImplemented
    is_there = (data != 0).reshape(-1)
    number = is_there.to(torch.int64).cumsum(0) - 1
    row = torch.where(is_there & (number < size), number, size)
    strides = [math.prod(data.shape[axis + 1 :]) for axis in range(data.ndim)]
    flat = torch.arange(data.numel())
    columns = [flat // stride % extent for stride, extent in zip(strides, data.shape, strict=True)]
    found = torch.full((size + 1, data.ndim), fill_value)
    return found.index_put([row], torch.stack(columns, 1))[:size]


def _put(data: Tensor, places: Tensor, values: Tensor, accumulate: bool = False) -> Tensor:
    """At places of the flattened tensor."""
    found = data.reshape(-1).index_put([places.reshape(-1)], values.reshape(-1), accumulate)
    return found.reshape(data.shape)


DECOMPOSITIONS: Mapping[torch._ops.OpOverload, Callable[..., Any]] = {
    aten.nonzero_static.default: _places_of_nonzero,
    aten.put.default: _put,
}
