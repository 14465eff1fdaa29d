"""Max pooling that also returns the indices of the maxima.

TVM's importer gives zeros for them, or has no such pooling.
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
        sizes = (sizes_per_axis(given, axes) for given in (kernel_size, stride or kernel_size, padding, dilation))
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
    given = [sizes] if isinstance(sizes, int) else list(sizes)
    return given * axes if len(given) == 1 else given


def _maxima(data: Tensor, windows: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The maxima, and their numbers in the flattened picture, of windows along each of the last axes [results, width]."""
    axes, extents = len(windows), data.shape[-len(windows) :]
    numbers = torch.zeros([1] * (2 * axes), dtype=torch.int64)
    for axis, (window, extent) in enumerate(zip(windows, extents, strict=True)):
        shape = [1] * (2 * axes)
        shape[axis], shape[axes + axis] = window.shape
        numbers = numbers * extent + window.reshape(shape)
    counts, width = [window.shape[0] for window in windows], math.prod(window.shape[1] for window in windows)
    places = numbers.reshape(-1)
    values = data.flatten(-axes)[..., places].reshape(*data.shape[:-axes], *counts, width)
    first = torch.arange(math.prod(counts)).reshape(counts) * width
    return values.amax(-1), places[first + values.argmax(-1)]


def _windows(extent: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> Tensor:
    """The coordinates of each window along an axis, those outside of the picture moved to the window's nearest inside."""
    spare = extent + 2 * padding - dilation * (kernel - 1) - 1
    count = (spare + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (count - 1) * stride >= extent + padding:
        count -= 1  # the last window has to begin within the picture or the padding before it
    first = torch.arange(count).unsqueeze(1) * stride - padding
    steps = torch.minimum(torch.arange(kernel), (extent - 1 - first) // dilation)
    return first + torch.maximum(steps, -(first // dilation)) * dilation


def _adaptive_windows(extent: int, count: int) -> Tensor:
    """The coordinates of each window along an axis; shorter ones repeat their last."""
    numbers = torch.arange(count)
    first, end = numbers * extent // count, -(-(numbers + 1) * extent // count)
    width = max(-(-(number + 1) * extent // count) - number * extent // count for number in range(count))
    return torch.minimum(first.unsqueeze(1) + torch.arange(width), end.unsqueeze(1) - 1)


PLACES: Mapping[torch._ops.OpOverload, Callable[..., Any]] = {
    aten.max_pool2d_with_indices.default: _pool(2),
    aten.max_pool3d_with_indices.default: _pool(3),
    aten.adaptive_max_pool2d.default: _adaptive_pool(2),
    aten.adaptive_max_pool3d.default: _adaptive_pool(3),
}
"""For programs that ask where the maxima are."""
