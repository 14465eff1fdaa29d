"""Decompose grid sampling of volumes, as in spatial transformers and registration networks: TVM samples images only."""

from collections.abc import Callable, Mapping
from itertools import product
from math import prod
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

NEAREST, BORDER, REFLECTION = 1, 1, 2
"""PyTorch's number of nearest interpolation, and its numbers of padding modes. 0 is linear interpolation, and zeros."""


def _grid_sample(data: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool) -> Any:
    """Linear or nearest samples.

    Args:
        data: ``[batch, channels, depth, height, width]``.
        grid: ``[batch, *results, 3]``, coordinates along width, height and depth, from -1 to 1.
        mode, padding: PyTorch's numbers of the modes.
        align_corners: whether -1 and 1 are the centres of the outermost elements, not their outer edges.
    """
    extents = data.shape[2:]
    if not all(isinstance(extent, int) for extent in extents):
        return NotImplemented
    coordinates = [
        _apply_padding(_denormalize(grid[..., 2 - axis], extent, align_corners), extent, padding, align_corners)
        for axis, extent in enumerate(extents)
    ]
    rows = data.reshape(*data.shape[:2], prod(extents))

    def look_up(indices: list[Tensor]) -> Tensor:
        """The elements at integer coordinates; zeros outside."""
        flat = torch.zeros_like(indices[0], dtype=torch.int64)
        is_inside = torch.ones_like(indices[0], dtype=torch.bool)
        for index, extent in zip(indices, extents, strict=True):
            is_inside = is_inside & (index >= 0) & (index <= extent - 1)
            flat = flat * extent + index.clamp(0, extent - 1).to(torch.int64)
        shape = (data.shape[0], data.shape[1], prod(flat.shape[1:]))
        elements = rows.gather(2, flat.reshape(flat.shape[0], 1, -1).expand(shape))
        return elements.reshape(*shape[:2], *flat.shape[1:]) * is_inside.unsqueeze(1).to(data.dtype)

    if mode == NEAREST:
        return look_up([torch.round(coordinate) for coordinate in coordinates])
    lower = [torch.floor(coordinate) for coordinate in coordinates]
    fractions = [coordinate - index for coordinate, index in zip(coordinates, lower, strict=True)]
    result = torch.zeros((), dtype=data.dtype)
    for corner in product((0, 1), repeat=3):
        weight = torch.ones((), dtype=data.dtype)
        for step, fraction in zip(corner, fractions, strict=True):
            weight = weight * (fraction if step else 1 - fraction)
        indices = [index + step for index, step in zip(lower, corner, strict=True)]
        result = result + look_up(indices) * weight.unsqueeze(1)
    return result


def _denormalize(coordinate: Tensor, extent: int, align_corners: bool) -> Tensor:
    return (coordinate + 1) / 2 * (extent - 1) if align_corners else ((coordinate + 1) * extent - 1) / 2


def _apply_padding(coordinate: Tensor, extent: int, padding: int, align_corners: bool) -> Tensor:
    """Move a coordinate into the volume, unless elements outside are zero."""
    if padding == REFLECTION:
        low, span = (0.0, extent - 1) if align_corners else (-0.5, extent)
        if span == 0:
            return torch.zeros_like(coordinate)
        distance = (coordinate - low).abs()
        reflections = torch.floor(distance / span)
        rest = distance - reflections * span
        coordinate = torch.where(reflections - 2 * torch.floor(reflections / 2) == 0, rest, span - rest) + low
    return coordinate.clamp(0, extent - 1) if padding in (BORDER, REFLECTION) else coordinate


DECOMPOSITIONS: Mapping[torch._ops.OpOverload, Callable[..., Any]] = {aten.grid_sampler_3d.default: _grid_sample}
