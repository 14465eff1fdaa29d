"""Rare steps of ONNX networks: writing and reading at indices, sampling, unpooling, orders, spectra."""

from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .images import is_float
from .network import Kind, Options
from .onnx_nodes import Node, integers, no_options, plain, weights


def _axis(rng: Random, x: Tensor, *ranks: int) -> Options | None:
    return {"axis": rng.randrange(-x.dim(), x.dim())} if is_float(x, *ranks) and x.dim() else None


def _elements(rng: Random, x: Tensor) -> Options | None:
    options = _axis(rng, x, 1, 2, 3, 4)
    return options and {**options, "reduction": rng.choice(("none", "add", "mul", "max", "min"))}


def _make_scattered(x: Tensor, axis: int, reduction: str) -> Node:
    extent = x.shape[axis]
    shape = [1 if number == axis % x.dim() else length for number, length in enumerate(x.shape)]
    positions = torch.randint(-extent, extent, shape).numpy()
    return Node("ScatterElements", [0, positions, weights(*shape)], axis=axis, reduction=reduction)


def _make_gathered(x: Tensor, axis: int) -> Node:
    positions = torch.randint(-x.shape[axis], x.shape[axis], x.shape).numpy()
    return Node("GatherElements", [0, positions], axis=axis)


def _points(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x, 2, 3, 4):
        return None
    depth = rng.randint(1, x.dim())
    return {"points": tuple(tuple(rng.randrange(extent) for extent in x.shape[:depth]) for _ in range(3))}


def _make_points(x: Tensor, points: tuple[tuple[int, ...], ...]) -> Node:
    return Node("GatherND", [0, np.array(points, np.int64)])


def _make_written(x: Tensor, points: tuple[tuple[int, ...], ...], reduction: str) -> Node:
    positions = np.array(sorted(set(points)) if reduction == "none" else points, np.int64)
    values = weights(len(positions), *x.shape[positions.shape[1] :])
    return Node("ScatterND", [0, positions, values], reduction=reduction)


def _grid(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x, 4, 5):
        return None
    return {
        "mode": rng.choice(("linear", "linear", "nearest", "cubic" if x.dim() == 4 else "linear")),
        "padding_mode": rng.choice(("zeros", "border", "reflection")),
        "align_corners": rng.choice((0, 1)),
    }


def _make_grid(x: Tensor, **options: Any) -> Node:
    axes = x.dim() - 2
    positions = torch.rand(x.shape[0], *(3 + number for number in range(axes)), axes) * 2.6 - 1.3
    return Node("GridSample", [0, positions.numpy()], **options)


def _resized(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x, 3, 4, 5):
        return None
    mode = rng.choice(("nearest", "linear", "linear", "cubic" if x.dim() == 4 else "linear"))
    corners = mode != "nearest" and rng.random() < 0.5
    options: Options = {
        "mode": mode,
        "coordinate_transformation_mode": "align_corners" if corners else rng.choice(("half_pixel", "asymmetric")),
        "axes": list(range(2, x.dim())),
    }
    if mode == "nearest":
        options["nearest_mode"] = rng.choice(("floor", "ceil"))
    if mode != "nearest" and not corners and x.dim() == 4 and rng.random() < 0.2:
        options["antialias"] = 1
    return {**options, "sizes": tuple(rng.randint(1, 9) for _ in range(x.dim() - 2))}


def _make_resized(x: Tensor, sizes: tuple[int, ...], **options: Any) -> Node:
    return Node("Resize", [0, None, None, integers(*sizes)], **options)


def _places_of_maxima(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x, 3, 4, 5) or min(x.shape[2:]) < 3:
        return None
    axes = x.dim() - 2
    return {
        "kernel_shape": [rng.choice((2, 3)) for _ in range(axes)],
        "strides": [rng.choice((1, 2)) for _ in range(axes)],
        "pads": [rng.choice((0, 1)) for _ in range(2 * axes)],
        "storage_order": rng.choice((0, 0, 1)),
    }


def _largest(rng: Random, x: Tensor) -> Options | None:
    options = _axis(rng, x)
    if options is None or x.shape[options["axis"]] < 3:
        return None
    return {
        **options,
        "k": rng.randint(1, 3),
        "largest": rng.choice((0, 1)),
        "sorted": 1,
        "taken": rng.choice((0, 0, 1)),
    }


def _equation(rng: Random, x: Tensor) -> Options | None:
    equations = {
        2: ("ij->ji", "ij->j", "ij,ij->i", "ij,kj->ik"),
        3: ("bij->bj", "bij,bkj->bik", "bij,bij->b", "...ij->...ji"),
        4: ("bchw,bchw->bhw", "bchw,bdhw->bcd", "bchw->bhwc"),
    }
    return {"equation": rng.choice(equations[x.dim()])} if is_float(x, 2, 3, 4) else None


def _make_equation(x: Tensor, equation: str) -> Node:
    return Node("Einsum", [0, 0] if "," in equation else [0], equation=equation)


def _cropped(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x, 3, 4):
        return None
    return {"shape": tuple(rng.randint(1, 8) for _ in range(2))}


def _selected(rng: Random, x: Tensor) -> Options | None:
    options = _axis(rng, x)
    if options is None or x.shape[options["axis"]] < 2:
        return None
    kept = [rng.random() < 0.6 for _ in range(x.shape[options["axis"]])]
    return {**options, "kept": (True, *kept[1:])}


def _lengths(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x, 2, 3, 4):
        return None
    return {"lengths": tuple(rng.randint(1, x.shape[1]) for _ in range(x.shape[0]))}


def _spectrum(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x, 3, 4) or x.shape[1] < 2 or x.shape[-1] > 2:  # the last axis is real and imaginary
        return None
    return {"onesided": rng.choice((0, 1)) if x.shape[-1] == 1 else 0}


def _make_spectrum(x: Tensor, onesided: int) -> Node:
    return Node("DFT", [0, None, np.array(1, np.int64)], onesided=onesided)


KINDS: dict[str, Kind] = {
    "ScatterElements": Kind(_elements, _make_scattered, weight=0.6),
    "GatherElements": Kind(lambda rng, x: _axis(rng, x, 1, 2, 3, 4), _make_gathered, weight=0.5),
    "GatherND": Kind(_points, _make_points, weight=0.5),
    "ScatterND": Kind(
        lambda rng, x: (
            (points := _points(rng, x)) and {**points, "reduction": rng.choice(("none", "add", "mul", "max"))}
        ),
        _make_written,
        weight=0.7,
    ),
    "GridSample": Kind(_grid, _make_grid, weight=1.5),
    "resized": Kind(_resized, _make_resized, weight=1.5),
    "places_of_maxima": Kind(
        _places_of_maxima,
        lambda x, **options: Node("MaxPool", outputs=2, taken=1, **options),
        weight=0.8,
    ),
    "largest": Kind(
        _largest,
        lambda x, k, taken, **options: Node("TopK", [0, integers(k)], outputs=2, taken=taken, **options),
        weight=0.4,
    ),
    "Einsum": Kind(_equation, _make_equation, weight=0.7),
    "CenterCropPad": Kind(
        _cropped, lambda x, shape: Node("CenterCropPad", [0, integers(*shape)], axes=[-2, -1]), weight=0.4
    ),
    "Compress": Kind(_selected, lambda x, axis, kept: Node("Compress", [0, np.array(kept)], axis=axis), weight=0.3),
    "ReverseSequence": Kind(
        _lengths,
        lambda x, lengths: Node("ReverseSequence", [0, integers(*lengths)], batch_axis=0, time_axis=1),
        weight=0.5,
    ),
    "DFT": Kind(_spectrum, _make_spectrum, weight=4),
    "OneHot": Kind(
        lambda rng, x: {"axis": rng.choice((-1, 0, 1))} if x.dtype == torch.int64 and 0 < x.dim() < 4 else None,
        lambda x, axis: Node("OneHot", [0, integers(7), np.array([-0.5, 1.5], np.float32)], axis=axis),
        weight=1,
    ),
    "number": Kind(
        lambda rng, x: {"operator": rng.choice(("IsNaN", "IsInf"))} if is_float(x) else None, plain, weight=0.2
    ),
    "Det": Kind(
        lambda rng, x: {} if is_float(x, 2, 3) and x.shape[-1] == x.shape[-2] <= 6 else None,
        lambda x: Node("Det"),
        weight=1,
    ),
    "MeanVarianceNormalization": Kind(
        lambda rng, x: {"axes": [0, 2, 3]} if is_float(x, 4) and x[:, 0].numel() > 4 else None,
        lambda x, axes: Node("MeanVarianceNormalization", axes=axes),
        weight=0.4,
    ),
    "GlobalLpPool": Kind(
        lambda rng, x: {} if is_float(x, 4) else None, lambda x: Node("GlobalLpPool", p=2), weight=0.2
    ),
    "cube": Kind(no_options, lambda x: Node("Pow", [0, np.array(3, np.int64)]), weight=0.2),
}
"""By name; operators' own names where a step is one of them."""
