"""Steps that move elements: reshaping, slicing, concatenating, repeating, indexing."""

import math
from random import Random
from typing import Any

import torch
import torch.nn.functional as F  # as everybody calls it
from torch import Tensor

from .images import divisors, is_float
from .network import Kind, Options

MOST_ELEMENTS = 20_000


def _axis(rng: Random, x: Tensor) -> int:
    """An axis, counted from either end."""
    return rng.randrange(x.dim()) - (x.dim() if rng.random() < 0.3 else 0)


def _with_axis(rng: Random, x: Tensor) -> Options | None:
    return {"dim": _axis(rng, x)} if x.dim() else None


def _permute(rng: Random, x: Tensor) -> Options | None:
    return {"dims": tuple(rng.sample(range(x.dim()), x.dim()))} if x.dim() > 1 else None


def _transpose(rng: Random, x: Tensor) -> Options | None:
    if x.dim() < 2:
        return None
    first, second = rng.sample(range(x.dim()), 2)
    return {"dim0": first, "dim1": second}


def _reshape(rng: Random, x: Tensor) -> Options | None:
    """Merge neighbours, or split an axis in two."""
    if not 1 <= x.dim() <= 5:
        return None
    shape = list(x.shape)
    for _ in range(rng.choice((1, 1, 2))):
        axis = rng.randrange(len(shape))
        if len(shape) > 1 and axis + 1 < len(shape) and rng.random() < 0.5:
            shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
        elif len(shape) < 6:
            factor = rng.choice(divisors(shape[axis]))
            shape[axis : axis + 1] = [factor, shape[axis] // factor]
    if rng.random() < 0.3 and math.prod(shape):
        shape[rng.randrange(len(shape))] = -1
    return {"shape": tuple(shape)}


def _windows(rng: Random, x: Tensor) -> Options | None:
    """Swin's partition of an image."""
    if not is_float(x, 4):
        return None
    sizes = [size for size in (2, 3, 4) if x.shape[2] % size == 0 and x.shape[3] % size == 0]
    return {"size": rng.choice(sizes)} if sizes else None


def _make_windows(x: Tensor, size: int) -> Any:
    def partition(value: Tensor) -> Tensor:
        batch, channels, height, width = value.shape
        blocks = value.view(batch, channels, height // size, size, width // size, size)
        return blocks.permute(0, 2, 4, 3, 5, 1).reshape(-1, size * size, channels)

    return partition


def _slice(rng: Random, x: Tensor) -> Options | None:
    if not x.dim():
        return None
    axis = _axis(rng, x)
    extent = x.shape[axis]
    if extent < 2:
        return None
    start = rng.randrange(extent)
    end = rng.randint(start + 1, extent)
    if rng.random() < 0.3:
        start -= extent
        end = end - extent if end < extent else None
    return {"dim": axis, "start": start, "end": end, "step": rng.choice((1, 1, 1, 2, 3))}


def _make_slice(x: Tensor, dim: int, start: int, end: int | None, step: int) -> Any:
    index = [slice(None)] * x.dim()
    index[dim] = slice(start, end, step)
    return lambda value: value[tuple(index)]


def _select(rng: Random, x: Tensor) -> Options | None:
    if x.dim() < 2:
        return None
    axis = _axis(rng, x)
    extent = x.shape[axis]
    return {"dim": axis, "index": rng.randrange(-extent, extent)}


def _chunk(rng: Random, x: Tensor) -> Options | None:
    axes = [axis for axis in range(x.dim()) if x.shape[axis] >= 2]
    if not axes:
        return None
    axis = rng.choice(axes)
    count = rng.randint(2, min(4, x.shape[axis]))
    return {"chunks": count, "dim": axis, "taken": rng.randrange(len(x.chunk(count, axis)))}


def _split(rng: Random, x: Tensor) -> Options | None:
    axes = [axis for axis in range(x.dim()) if x.shape[axis] >= 2]
    if not axes:
        return None
    axis = rng.choice(axes)
    first = rng.randrange(1, x.shape[axis])
    return {"sizes": (first, x.shape[axis] - first), "dim": axis, "swaps": rng.random() < 0.5}


def _make_split(x: Tensor, sizes: tuple[int, int], dim: int, swaps: bool) -> Any:
    def halves(value: Tensor) -> Tensor:
        first, second = torch.split(value, list(sizes), dim)
        return torch.cat([second, first], dim) if swaps else first

    return halves


def _roll(rng: Random, x: Tensor) -> Options | None:
    if x.dim() < 2:
        return None
    axes = tuple(rng.sample(range(x.dim()), rng.choice((1, 2))))
    return {"shifts": tuple(rng.randint(-3, 3) for _ in axes), "dims": axes}


def _flip(rng: Random, x: Tensor) -> Options | None:
    return {"dims": tuple(rng.sample(range(x.dim()), rng.choice((1, min(2, x.dim())))))} if x.dim() else None


def _tile(rng: Random, x: Tensor) -> Options | None:
    if not 1 <= x.dim() <= 4:
        return None
    return {"dims": tuple(rng.choice((1, 1, 2, 3)) for _ in range(x.dim() + rng.choice((0, 0, 1))))}


def _repeat_interleave(rng: Random, x: Tensor) -> Options | None:
    return {"repeats": rng.choice((2, 3)), "dim": rng.randrange(x.dim())} if x.dim() else None


def _expand(rng: Random, x: Tensor) -> Options | None:
    axes = [axis for axis in range(x.dim()) if x.shape[axis] == 1]
    if not axes:
        return None
    shape = [-1] * x.dim()
    shape[rng.choice(axes)] = rng.choice((2, 3, 5))
    return {"shape": (*([2] if rng.random() < 0.2 else []), *shape)}


def _lookup(rng: Random, x: Tensor) -> Options | None:
    if not x.dim():
        return None
    axis = rng.randrange(x.dim())
    indices = [rng.randrange(x.shape[axis]) for _ in range(rng.randint(1, 6))]
    return {"dim": axis, "indices": tuple(indices)}


def _make_lookup(x: Tensor, dim: int, indices: tuple[int, ...]) -> Any:
    return lambda value: torch.index_select(value, dim, torch.tensor(indices))


def _gather(rng: Random, x: Tensor) -> Options | None:
    return {"dim": rng.randrange(x.dim())} if 1 <= x.dim() <= 4 else None


def _make_gather(x: Tensor, dim: int) -> Any:
    index = torch.randint(0, x.shape[dim], x.shape)
    return lambda value: value.gather(dim, index)


def _unfold_axis(rng: Random, x: Tensor) -> Options | None:
    axes = [axis for axis in range(x.dim()) if x.shape[axis] >= 3]
    if not axes or x.dim() > 4:
        return None
    return {"dimension": rng.choice(axes), "size": rng.choice((2, 3)), "step": rng.choice((1, 2))}


def _joins(x: Tensor, y: Tensor) -> bool:
    """Whether two values differ in one axis at most."""
    if x.dim() != y.dim() or not x.dim() or x.dtype != y.dtype:
        return False
    return sum(left != right for left, right in zip(x.shape, y.shape, strict=True)) <= 1


def _make_cat(*values: Tensor, choice: int) -> Any:
    x = values[0]
    unequal = {axis for y in values[1:] for axis in range(x.dim()) if x.shape[axis] != y.shape[axis]}
    axis = unequal.pop() if unequal else choice % x.dim()
    return lambda *operands: torch.cat(operands, axis)


def _method(name: str) -> Any:
    return lambda x, **options: lambda value: getattr(value, name)(**options)


def _scatter(rng: Random, x: Tensor) -> Options | None:
    return {"dim": rng.randrange(x.dim())} if is_float(x, 2, 3) and x.numel() < 600 else None


def _make_scatter(x: Tensor, dim: int) -> Any:
    order = torch.randperm(x.shape[dim])
    index = order.view([-1 if axis == dim else 1 for axis in range(x.dim())]).expand(x.shape)
    return lambda value: torch.zeros_like(value).scatter(dim, index, value)


KINDS: dict[str, Kind] = {
    "permute": Kind(_permute, _method("permute"), weight=1.2),
    "transpose": Kind(_transpose, _method("transpose"), weight=0.8),
    "reshape": Kind(_reshape, lambda x, shape: lambda value: value.reshape(shape), weight=1.5),
    "flatten": Kind(
        lambda rng, x: {"start_dim": rng.choice((0, 1, 1, 2))} if x.dim() > 2 else None, _method("flatten"), weight=0.8
    ),
    "tokens": Kind(
        lambda rng, x: {} if is_float(x, 4) else None,
        lambda x: lambda value: value.flatten(2).transpose(1, 2),
        weight=1.2,
    ),
    "windows": Kind(_windows, _make_windows, weight=0.5),
    "unsqueeze": Kind(
        lambda rng, x: {"dim": rng.randint(-1, x.dim())} if x.dim() < 5 else None, _method("unsqueeze"), weight=0.5
    ),
    "squeeze": Kind(lambda rng, x: {} if 1 in x.shape and x.numel() > 1 else None, _method("squeeze"), weight=0.5),
    "slice": Kind(_slice, _make_slice, weight=1.2),
    "select": Kind(_select, _method("select"), weight=0.5),
    "chunk": Kind(_chunk, lambda x, chunks, dim, taken: lambda value: value.chunk(chunks, dim)[taken], weight=1.0),
    "split": Kind(_split, _make_split, weight=0.8),
    "roll": Kind(_roll, _method("roll"), weight=0.7),
    "flip": Kind(_flip, _method("flip"), weight=0.4),
    "tile": Kind(_tile, _method("tile"), weight=0.4),
    "repeat_interleave": Kind(_repeat_interleave, _method("repeat_interleave"), weight=0.3),
    "expand": Kind(_expand, lambda x, shape: lambda value: value.expand(shape), weight=0.5),
    "lookup": Kind(_lookup, _make_lookup, weight=0.5),
    "gather": Kind(_gather, _make_gather, weight=0.3),
    "scatter": Kind(_scatter, _make_scatter, weight=0.2),
    "unfold_axis": Kind(_unfold_axis, _method("unfold"), weight=0.3),
    "cat": Kind(lambda rng, x: {"choice": rng.randrange(12)}, _make_cat, _joins, partners=2, weight=2),
    "stack": Kind(
        lambda rng, x: {"dim": rng.randint(0, x.dim())} if x.dim() < 5 else None,
        lambda *values, dim: lambda *operands: torch.stack(operands, dim),
        lambda x, y: x.shape == y.shape and x.dtype == y.dtype,
        partners=2,
        weight=0.7,
    ),
    "tril": Kind(
        lambda rng, x: {"diagonal": rng.randint(-1, 1)} if is_float(x) and x.dim() >= 2 else None,
        _method("tril"),
        weight=0.3,
    ),
    "triu": Kind(
        lambda rng, x: {"diagonal": rng.randint(-1, 1)} if is_float(x) and x.dim() >= 2 else None,
        _method("triu"),
        weight=0.2,
    ),
    "glu": Kind(
        lambda rng, x: (
            {"dim": rng.choice(axes)}
            if is_float(x) and (axes := [axis for axis in range(x.dim()) if x.shape[axis] % 2 == 0])
            else None
        ),
        lambda x, dim: lambda value: F.glu(value, dim),
        weight=0.6,
    ),
}
"""By name."""
