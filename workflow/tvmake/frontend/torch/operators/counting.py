"""What counts or divides: histograms, places of what is not zero, sums of segments, common divisors and multiples."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

EUCLID_STEPS = {torch.int64: 92, torch.int32: 46, torch.int16: 23, torch.int8: 12, torch.uint8: 12}
"""Of Euclid's algorithm at most: neighbours among Fibonacci's numbers take the most (G. Lamé, 1844)."""


def _counted(data: Tensor, bins: int, low: Any, high: Any, weight: Tensor | None) -> Tensor:
    """Counts of equal intervals; the last one has its upper end too, and what is outside counts nowhere."""
    places = torch.floor((data - low) / (high - low) * bins).clamp(0, bins - 1)
    is_inside = (data >= low) & (data <= high)
    is_there = (places.unsqueeze(0) == torch.arange(bins, dtype=data.dtype).unsqueeze(1)) & is_inside
    counts = is_there.to(data.dtype)
    return (counts if weight is None else counts * weight).sum(1)


def _range(data: Tensor, low: float, high: float) -> tuple[Any, Any]:
    """The range of the data where none is given; one value alone lies in the middle of a range of width 1."""
    if low != high:
        return low, high
    least, most = data.amin(), data.amax()
    spare = torch.where(least == most, 0.5, 0.0)
    return least - spare, most + spare


def _histogram(data: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    data = data.reshape(-1)
    return _counted(data, bins, *_range(data, min, max), None)


def _histogram_and_edges(
    data: Tensor,
    bins: int = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    data = data.reshape(-1)
    low, high = _range(data, *(range or (0.0, 0.0)))
    counts = _counted(data, bins, low, high, None if weight is None else weight.reshape(-1))
    width = (high - low) / bins
    edges = torch.arange(bins + 1, dtype=data.dtype) * width + low
    return (counts / (counts.sum() * width) if density else counts), edges


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


def _segments_reduced(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Any:
    """Rows after each other, so many for each segment; an empty segment is the initial value."""
    if lengths is not None:
        ends = lengths.cumsum(0)
        starts = ends - lengths
    elif offsets is not None:
        starts, ends = offsets[:-1], offsets[1:]
    else:
        return NotImplemented
    if axis != 0 or ends.ndim != 1:
        return NotImplemented
    rows = torch.arange(data.shape[0])
    takes = (rows >= starts.unsqueeze(1)) & (rows < ends.unsqueeze(1))
    takes = takes.reshape(*takes.shape, *[1] * (data.ndim - 1))
    empty = {"sum": 0.0, "mean": 0.0, "max": -math.inf, "min": math.inf, "prod": 1.0}[reduce]
    values = torch.where(takes, data.unsqueeze(0), empty)
    match reduce:
        case "max":
            found = values.amax(1) if initial is None else values.amax(1).clamp(min=initial)
        case "min":
            found = values.amin(1) if initial is None else values.amin(1).clamp(max=initial)
        case "prod":
            found = values.prod(1) * (1.0 if initial is None else initial)
        case _:
            found = values.sum(1) + (initial or 0.0)
    if reduce != "mean":
        return found
    counts = takes.to(data.dtype).sum(1)
    return torch.where(counts > 0, found / counts.clamp(min=1), math.nan if initial is None else initial)


def _common_divisor(left: Tensor, right: Tensor) -> Tensor:
    """By Euclid's algorithm, with as many steps as it can take, and no choices: TVM 0.27 simplifies one by what another around it says, until
    both are computed, and a processor stops a program that divides by zero."""
    dtype = torch.result_type(left, right)
    left, right = torch.broadcast_tensors(left.to(dtype).abs(), right.to(dtype).abs())
    for _ in range(EUCLID_STEPS[dtype]):
        is_done = (right == 0).to(dtype)
        left, right = right + is_done * left, torch.remainder(left, right + is_done)
    return left


def _common_multiple(left: Tensor, right: Tensor) -> Tensor:
    divisor = _common_divisor(left, right)
    quotient = torch.div(left, torch.where(divisor == 0, 1, divisor), rounding_mode="floor")
    return (quotient * right).abs()


def _put(data: Tensor, places: Tensor, values: Tensor, accumulate: bool = False) -> Tensor:
    """At places of the flattened tensor."""
    found = data.reshape(-1).index_put([places.reshape(-1)], values.reshape(-1), accumulate)
    return found.reshape(data.shape)


DECOMPOSITIONS: Mapping[torch._ops.OpOverload, Callable[..., Any]] = {
    aten.histc.default: _histogram,
    aten.histogram.bin_ct: _histogram_and_edges,
    aten.nonzero_static.default: _places_of_nonzero,
    aten.segment_reduce.default: _segments_reduced,
    aten.gcd.default: _common_divisor,
    aten.lcm.default: _common_multiple,
    aten.put.default: _put,
}
