"""Values of a volume at places that a grid names, as spatial transformers and registration networks take them: TVM samples pictures alone."""

from collections.abc import Callable, Mapping
from itertools import product
from math import prod
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

NEAREST, BORDER, REFLECTION = 1, 1, 2
"""Numbers of a way to interpolate, and of ways to go on beyond the volume; 0 is linear, and zeros."""


def _sampled(data: Tensor, grid: Tensor, mode: int, padding: int, aligns: bool) -> Any:
    """Linear or nearest samples.

    Args:
        data: ``[batch, channels, depth, height, width]``.
        grid: ``[batch, *results, 3]``, the places along width, height and depth; -1 and 1 are the ends.
        mode, padding: as PyTorch numbers them.
        aligns: whether the ends are the centres of the outermost elements, not their borders.
    """
    extents = data.shape[2:]
    if not all(isinstance(extent, int) for extent in extents):
        return NotImplemented
    places = [
        _inside(_place(grid[..., 2 - axis], extent, aligns), extent, padding, aligns)
        for axis, extent in enumerate(extents)
    ]
    rows = data.reshape(*data.shape[:2], prod(extents))

    def taken(corner: list[Tensor]) -> Tensor:
        """The elements at whole places; zeros outside."""
        flat = torch.zeros_like(corner[0], dtype=torch.int64)
        is_there = torch.ones_like(corner[0], dtype=torch.bool)
        for at, extent in zip(corner, extents, strict=True):
            is_there = is_there & (at >= 0) & (at <= extent - 1)
            flat = flat * extent + at.clamp(0, extent - 1).to(torch.int64)
        shape = (data.shape[0], data.shape[1], prod(flat.shape[1:]))
        found = rows.gather(2, flat.reshape(flat.shape[0], 1, -1).expand(shape))
        return found.reshape(*shape[:2], *flat.shape[1:]) * is_there.unsqueeze(1).to(data.dtype)

    if mode == NEAREST:
        return taken([torch.round(place) for place in places])
    first = [torch.floor(place) for place in places]
    shares = [place - corner for place, corner in zip(places, first, strict=True)]
    found = torch.zeros((), dtype=data.dtype)
    for corner in product((0, 1), repeat=3):
        share = torch.ones((), dtype=data.dtype)
        for step, upper in zip(corner, shares, strict=True):
            share = share * (upper if step else 1 - upper)
        here = [at + step for at, step in zip(first, corner, strict=True)]
        found = found + taken(here) * share.unsqueeze(1)
    return found


def _place(at: Tensor, extent: int, aligns: bool) -> Tensor:
    return (at + 1) / 2 * (extent - 1) if aligns else ((at + 1) * extent - 1) / 2


def _inside(place: Tensor, extent: int, padding: int, aligns: bool) -> Tensor:
    """A place moved into the volume, where it is not to count as zero beyond."""
    if padding == REFLECTION:
        low, span = (0.0, extent - 1) if aligns else (-0.5, extent)
        if span == 0:
            return torch.zeros_like(place)
        distance = (place - low).abs()
        turns = torch.floor(distance / span)
        rest = distance - turns * span
        place = torch.where(turns - 2 * torch.floor(turns / 2) == 0, rest, span - rest) + low
    return place.clamp(0, extent - 1) if padding in (BORDER, REFLECTION) else place


DECOMPOSITIONS: Mapping[torch._ops.OpOverload, Callable[..., Any]] = {aten.grid_sampler_3d.default: _sampled}
