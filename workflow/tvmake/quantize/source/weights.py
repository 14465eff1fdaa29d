"""Weights that the source holds in few bits and multiplies with floats: their integers, scales and zero points as it has them.

Importers bring them as arithmetic on constants (``dequantize``, or casts, differences and products), which folding makes floats of.
So they are looked at before, and found again afterwards by the numbers that they are.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm

from tvmake.ir.expressions import bindings, constant, fixed_shape, is_call
from tvmake.quantize.integers.affine import SMALL, affine, along
from tvmake.quantize.integers.products import CONVOLUTIONS, OTHER_PRODUCTS
from tvmake.quantize.weights.narrow import Integers, Spread, digest, grouped_integers
from tvmake.quantize.weights.tables import LOOKUP

LEAST_SPREAD = 4096
"""Numbers of the smallest weight that is made real as it is needed."""

KERNEL_LAYOUTS = ("OIHW", "OHWI")
"""What ``transform.layout`` makes of weights of convolutions."""

LEAST_GROUP = 8
"""Of the numbers that share a scale: with fewer, scales take as much as they save."""


@dataclass(frozen=True)
class _Grid:
    """Numbers (integers − zeros) · scales; the latter two spread over the integers."""

    integers: np.ndarray
    zeros: np.ndarray
    scales: np.ndarray
    dtype: str = "float32"

    @property
    def numbers(self) -> np.ndarray:
        """As folding computes them."""
        centred = self.integers.astype(np.float32)
        if self.zeros.any():
            centred = centred - self.zeros
        return np.asarray(centred * self.scales, self.dtype)

    def moved(self, move: Any) -> "_Grid":
        """With ``move`` done to every element."""
        zeros, scales = (
            part if part.size == 1 else move(np.broadcast_to(part, self.integers.shape))
            for part in (self.zeros, self.scales)
        )
        return replace(self, integers=move(self.integers), zeros=zeros, scales=scales)


def source_weights(module: "tvm.IRModule") -> Mapping[str, Integers | Spread]:
    """The integers of weights and of tables [rows, columns], by the ``digest`` of the numbers that they stand for.

    Those of matrices [inputs, outputs] are such as kernels read, others as the source has them.

    Args:
        module: with its weights as constants, before they are folded.
    """
    made = {binding.var: binding.value for binding in bindings(module["main"]) if hasattr(binding, "value")}
    found: dict[str, Integers | Spread] = {}
    for call in made.values():
        is_table = is_call(call, LOOKUP) and call.attrs.axis is not None and int(call.attrs.axis) == 0
        is_product = (
            is_call(call, "matmul", *CONVOLUTIONS, *OTHER_PRODUCTS) and len(call.args) > 1
        )  # einsum has a tuple
        if not is_table and not is_product:
            continue
        grid = _grid(call.args[0 if is_table else 1], made)
        if grid is None or (is_table and grid.integers.ndim != 2):
            continue
        if is_call(call, "nn.conv1d"):
            grid = grid.moved(_as_picture)
        for one in _in_layouts(call, grid):
            held: Integers | Spread | None
            if is_table:
                held = _held(one.moved(np.transpose), 8)
                held = held if held and not len(held.values) % held.group else None
            elif is_call(call, "matmul") and one.integers.ndim == 2:
                held = _held(one, 4)
            else:
                held = _spread(one)
            if held is None:
                continue
            numbers = one.numbers
            found[digest(numbers)] = held
            found[digest(numbers.astype(np.float16))] = held
    return found


def _in_layouts(call: Any, grid: _Grid) -> Iterator[_Grid]:
    """A product's weight as it is, and in the layouts that a transformation may give it."""
    yield grid
    if not is_call(call, "nn.conv1d", "nn.conv2d"):
        return
    layout = "OIHW" if is_call(call, "nn.conv1d") else str(call.attrs.kernel_layout)
    for other in KERNEL_LAYOUTS:
        if other != layout and sorted(other) == sorted(layout):
            axes = [layout.index(axis) for axis in other]
            yield grid.moved(lambda part, axes=axes: np.ascontiguousarray(np.transpose(part, axes)))


def _as_picture(part: np.ndarray) -> np.ndarray:
    """A window of a sequence as one of a picture with a single row, which it becomes (``transform.convolutions.sequences``)."""
    return np.expand_dims(part, 2)


def _held(grid: _Grid, least_bits: int) -> Integers | None:
    shape = grid.integers.shape
    zeros, scales = (np.broadcast_to(part, shape) for part in (grid.zeros, grid.scales))
    changes = np.flatnonzero(((zeros[1:] != zeros[:-1]) | (scales[1:] != scales[:-1])).any(axis=1)) + 1
    size = math.gcd(*(int(place) for place in changes), 0) or shape[0]
    if size < min(LEAST_GROUP, shape[0]) or not np.isfinite(scales).all() or (zeros != np.rint(zeros)).any():
        return None
    return grouped_integers(grid.integers, zeros[::size], scales[::size], size, least_bits)


def _spread(grid: _Grid) -> Spread | None:
    scales, zeros = _narrowed(grid.scales), _narrowed(grid.zeros)
    size = grid.integers.size
    if size < LEAST_SPREAD or max(scales.size, zeros.size) * LEAST_GROUP > size or not np.isfinite(scales).all():
        return None
    return Spread(grid.integers, scales.astype(np.float32), zeros.astype(np.float32) if zeros.any() else None)


def _narrowed(part: np.ndarray) -> np.ndarray:
    """With one place of each axis along which nothing changes."""
    for axis in range(part.ndim):
        first = part.take([0], axis)
        part = first if (part == first).all() else part
    return part


def _grid(value: Any, made: Mapping[Any, Any]) -> _Grid | None:
    call = made.get(value, value)
    if is_call(call, "dequantize"):
        return _dequantized(call)
    if is_call(call, "astype"):
        integers = _value(call.args[0], made)
        wanted = str(call.attrs.dtype)
        if integers is not None and str(integers.dtype) in SMALL and wanted == "float32":
            return _Grid(integers, np.zeros((), np.float32), np.ones((), np.float32))
        inner = _grid(call.args[0], made) if wanted in ("float32", "float16") else None
        return replace(inner, dtype=wanted) if inner and inner.dtype == "float32" else None
    if is_call(call, "subtract", "multiply"):
        return _shifted_or_scaled(call, made)
    move = _move(call)
    inner = _grid(call.args[0], made) if move else None
    return inner.moved(move) if move and inner else None


def _value(value: Any, made: Mapping[Any, Any]) -> np.ndarray | None:
    """A constant, moved and in another type as it may be."""
    call = made.get(value, value)
    known = constant(call)
    if known is not None:
        return known
    if is_call(call, "astype"):
        inner = _value(call.args[0], made)
        return None if inner is None else inner.astype(str(call.attrs.dtype))
    move = _move(call)
    inner = _value(call.args[0], made) if move else None
    return move(inner) if move and inner is not None else None


def _dequantized(call: Any) -> _Grid | None:
    found = affine(call)
    integers = constant(found.integers) if found else None
    if found is None or integers is None or found.dtype not in SMALL or not found.is_known:
        return None
    zeros, scales = (along(part.astype(np.float32), found.axis, found.rank) for part in (found.zero, found.scale))
    return _Grid(integers, zeros, scales)


def _shifted_or_scaled(call: Any, made: Mapping[Any, Any]) -> _Grid | None:
    left, right = call.args
    by = _value(right, made)
    if by is None and is_call(call, "multiply"):
        left, right = right, left
        by = _value(right, made)
    inner = _grid(left, made)
    if inner is None or inner.dtype != "float32" or by is None or by.dtype != np.float32:
        return None
    if np.broadcast_shapes(by.shape, inner.integers.shape) != inner.integers.shape:
        return None
    is_plain = inner.scales.size == 1 and inner.scales.item() == 1
    if is_call(call, "subtract"):
        return replace(inner, zeros=by) if is_plain and not inner.zeros.any() else None
    return replace(inner, scales=by) if is_plain else None


def _move(call: Any) -> Callable[[np.ndarray], np.ndarray] | None:
    """What an operator that moves elements does to an array; None for another one."""
    if not is_call(call, "permute_dims", "reshape", "strided_slice"):
        return None
    if is_call(call, "permute_dims"):
        axes = call.attrs.axes
        return lambda part: np.transpose(part, None if axes is None else [int(axis) for axis in axes])
    shape = fixed_shape(call)
    if shape is None:
        return None
    if is_call(call, "reshape"):
        return lambda part: np.reshape(part, shape)
    bounds = [[int(one) for one in argument.fields] for argument in call.args[1:4] if hasattr(argument, "fields")]
    if len(bounds) < 3 or any(start < 0 for start in bounds[1]):
        return None
    axes, starts, ends = bounds
    slices = {axis: slice(start, end) for axis, start, end in zip(axes, starts, ends, strict=True)}

    def cut(part: np.ndarray) -> np.ndarray:
        return part[tuple(slices.get(axis, slice(None)) for axis in range(part.ndim))]

    strides = call.args[4] if len(call.args) > 4 else None
    is_dense = strides is None or all(int(one) == 1 for one in strides.fields)
    return cut if is_dense else None
