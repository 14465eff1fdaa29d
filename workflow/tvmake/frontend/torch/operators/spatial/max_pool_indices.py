"""Decompose max pooling that also returns the indices of the maxima.

TVM's importer returns zeros for the indices, or lacks the operator.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def _pool(axes: int) -> Callable[..., Any]:
    def pool(
        data: Tensor,
        kernel_size: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        dilation: Sequence[int] = (1,),
        ceil_mode: bool = False,
    ) -> Any:
        extents = data.shape[-axes:]
        if not all(isinstance(extent, int) for extent in extents):
            return NotImplemented
        sizes = (sizes_per_axis(size, axes) for size in (kernel_size, stride or kernel_size, padding, dilation))
        windows = map(partial(_windows, ceil_mode=ceil_mode), extents, *sizes)
        return _maxima(data, list(windows))

    return pool


def _adaptive_pool(axes: int) -> Callable[..., Any]:
    def pool(data: Tensor, output_size: Sequence[int]) -> Any:
        extents = data.shape[-axes:]
        if not all(isinstance(extent, int) for extent in extents):
            return NotImplemented
        return _maxima(data, list(map(_adaptive_windows, extents, output_size)))

    return pool


def sizes_per_axis(sizes: int | Sequence[int], axes: int) -> list[int]:
    """A size for each axis."""
    values = [sizes] if isinstance(sizes, int) else list(sizes)
    return values * axes if len(values) == 1 else values


def _maxima(data: Tensor, windows: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The maxima and their indices in the flattened feature map, for pooling windows ``[results, width]`` of each axis."""
    axes, extents = len(windows), data.shape[-len(windows) :]
    numbers = torch.zeros([1] * (2 * axes), dtype=torch.int64)
    for axis, (window, extent) in enumerate(zip(windows, extents, strict=True)):
        shape = [1] * (2 * axes)
        shape[axis], shape[axes + axis] = window.shape
        numbers = numbers * extent + window.reshape(shape)
    counts, width = [window.shape[0] for window in windows], math.prod(window.shape[1] for window in windows)
    indices = numbers.reshape(-1)
    values = data.flatten(-axes)[..., indices].reshape(*data.shape[:-axes], *counts, width)
    first = torch.arange(math.prod(counts)).reshape(counts) * width
    return values.amax(-1), indices[first + values.argmax(-1)]


def _windows(extent: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> Tensor:
    """Coordinates of each pooling window along an axis. Those outside of the feature map are moved inside."""
    spare = extent + 2 * padding - dilation * (kernel - 1) - 1
    count = (spare + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (count - 1) * stride >= extent + padding:
        count -= 1  # the last window must begin within the feature map or the padding before it
    first = torch.arange(count).unsqueeze(1) * stride - padding
    steps = torch.minimum(torch.arange(kernel), (extent - 1 - first) // dilation)
    return first + torch.maximum(steps, -(first // dilation)) * dilation


def _adaptive_windows(extent: int, count: int) -> Tensor:
    """Coordinates of each pooling window along an axis. Shorter windows repeat their last coordinate."""
    numbers = torch.arange(count)
    first, end = numbers * extent // count, -(-(numbers + 1) * extent // count)
    width = max(-(-(number + 1) * extent // count) - number * extent // count for number in range(count))
    return torch.minimum(first.unsqueeze(1) + torch.arange(width), end.unsqueeze(1) - 1)


INDEX_DECOMPOSITIONS: Mapping[torch._ops.OpOverload, Callable[..., Any]] = {
    aten.max_pool2d_with_indices.default: _pool(2),
    aten.max_pool3d_with_indices.default: _pool(3),
    aten.adaptive_max_pool2d.default: _adaptive_pool(2),
    aten.adaptive_max_pool3d.default: _adaptive_pool(3),
}
"""Decompositions for programs that use the indices."""
