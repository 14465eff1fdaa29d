"""Weights that the source stores in few bits and multiplies with floats: their integers, scales and zero points.

Importers emit them as arithmetic on constants (``dequantize``, or casts, differences and multiplications), which constant
folding turns into floats. They are therefore recorded before folding, and recognised afterwards by their float values.
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
"""Elements of the smallest weight that a kernel dequantises at run time."""

KERNEL_LAYOUTS = ("OIHW", "OHWI")
"""Layouts of convolution weights after ``transform.layout``."""

LEAST_GROUP = 8
"""Smallest number of elements that share a scale; with fewer, scales take the memory that integers save."""


@dataclass(frozen=True)
class _Grid:
    """Values (integers − zeros) · scales; zeros and scales broadcast to the integers."""

    integers: np.ndarray
    zeros: np.ndarray
    scales: np.ndarray
    dtype: str = "float32"

    @property
    def values(self) -> np.ndarray:
        """The values as constant folding computes them."""
        centred = self.integers.astype(np.float32)
        if self.zeros.any():
            centred = centred - self.zeros
        return np.asarray(centred * self.scales, self.dtype)

    def map_arrays(self, move: Any) -> "_Grid":
        """Apply ``move`` to all arrays."""
        zeros, scales = (
            part if part.size == 1 else move(np.broadcast_to(part, self.integers.shape))
            for part in (self.zeros, self.scales)
        )
        return replace(self, integers=move(self.integers), zeros=zeros, scales=scales)


def source_weights(module: "tvm.IRModule") -> Mapping[str, Integers | Spread]:
    """Return the integers of weights and of tables [rows, columns], by the ``digest`` of their float values.

    Weights of matmuls [inputs, outputs] are in the format of kernels, others in that of the source.

    Args:
        module: the network with constant weights, before constant folding.
    """
    definitions = {binding.var: binding.value for binding in bindings(module["main"]) if hasattr(binding, "value")}
    weights: dict[str, Integers | Spread] = {}
    for call in definitions.values():
        is_table = is_call(call, LOOKUP) and call.attrs.axis is not None and int(call.attrs.axis) == 0
        is_product = (
            is_call(call, "matmul", *CONVOLUTIONS, *OTHER_PRODUCTS) and len(call.args) > 1
        )  # einsum has a tuple
        if not is_table and not is_product:
            continue
        grid = _grid(call.args[0 if is_table else 1], definitions)
        if grid is None or (is_table and grid.integers.ndim != 2):
            continue
        if is_call(call, "nn.conv1d"):
            grid = grid.map_arrays(_add_height)
        for variant in _in_layouts(call, grid):
            weight: Integers | Spread | None
            if is_table:
                weight = _group(variant.map_arrays(np.transpose), 8)
                weight = weight if weight and not len(weight.values) % weight.group else None
            elif is_call(call, "matmul") and variant.integers.ndim == 2:
                weight = _group(variant, 4)
            else:
                weight = _spread(variant)
            if weight is None:
                continue
            values = variant.values
            weights[digest(values)] = weight
            weights[digest(values.astype(np.float16))] = weight
    return weights


def _in_layouts(call: Any, grid: _Grid) -> Iterator[_Grid]:
    """Yield a weight unchanged, and in the layouts that a transformation may convert it to."""
    yield grid
    if not is_call(call, "nn.conv1d", "nn.conv2d"):
        return
    layout = "OIHW" if is_call(call, "nn.conv1d") else str(call.attrs.kernel_layout)
    for new_layout in KERNEL_LAYOUTS:
        if new_layout != layout and sorted(new_layout) == sorted(layout):
            axes = [layout.index(axis) for axis in new_layout]
            yield grid.map_arrays(lambda part, axes=axes: np.ascontiguousarray(np.transpose(part, axes)))


def _add_height(part: np.ndarray) -> np.ndarray:
    """Add an axis of size 1, because conv1d becomes conv2d (``transform.convolutions.sequences``)."""
    return np.expand_dims(part, 2)


def _group(grid: _Grid, least_bits: int) -> Integers | None:
    shape = grid.integers.shape
    zeros, scales = (np.broadcast_to(part, shape) for part in (grid.zeros, grid.scales))
    changes = np.flatnonzero(((zeros[1:] != zeros[:-1]) | (scales[1:] != scales[:-1])).any(axis=1)) + 1
    size = math.gcd(*(int(row) for row in changes), 0) or shape[0]
    if size < min(LEAST_GROUP, shape[0]) or not np.isfinite(scales).all() or (zeros != np.rint(zeros)).any():
        return None
    return grouped_integers(grid.integers, zeros[::size], scales[::size], size, least_bits)


def _spread(grid: _Grid) -> Spread | None:
    scales, zeros = _drop_repeats(grid.scales), _drop_repeats(grid.zeros)
    size = grid.integers.size
    if size < LEAST_SPREAD or max(scales.size, zeros.size) * LEAST_GROUP > size or not np.isfinite(scales).all():
        return None
    return Spread(grid.integers, scales.astype(np.float32), zeros.astype(np.float32) if zeros.any() else None)


def _drop_repeats(part: np.ndarray) -> np.ndarray:
    """Reduce each axis with equal slices to size 1."""
    for axis in range(part.ndim):
        first = part.take([0], axis)
        part = first if (part == first).all() else part
    return part


def _grid(value: Any, definitions: Mapping[Any, Any]) -> _Grid | None:
    call = definitions.get(value, value)
    if is_call(call, "dequantize"):
        return _dequantize_grid(call)
    if is_call(call, "astype"):
        integers = _value(call.args[0], definitions)
        dtype = str(call.attrs.dtype)
        if integers is not None and str(integers.dtype) in SMALL and dtype == "float32":
            return _Grid(integers, np.zeros((), np.float32), np.ones((), np.float32))
        inner = _grid(call.args[0], definitions) if dtype in ("float32", "float16") else None
        return replace(inner, dtype=dtype) if inner and inner.dtype == "float32" else None
    if is_call(call, "subtract", "multiply"):
        return _arithmetic_grid(call, definitions)
    move = _move(call)
    inner = _grid(call.args[0], definitions) if move else None
    return inner.map_arrays(move) if move and inner else None


def _value(value: Any, definitions: Mapping[Any, Any]) -> np.ndarray | None:
    """Evaluate a constant behind casts and moves."""
    call = definitions.get(value, value)
    known = constant(call)
    if known is not None:
        return known
    if is_call(call, "astype"):
        inner = _value(call.args[0], definitions)
        return None if inner is None else inner.astype(str(call.attrs.dtype))
    move = _move(call)
    inner = _value(call.args[0], definitions) if move else None
    return move(inner) if move and inner is not None else None


def _dequantize_grid(call: Any) -> _Grid | None:
    source = affine(call)
    integers = constant(source.integers) if source else None
    if source is None or integers is None or source.dtype not in SMALL or not source.is_known:
        return None
    zeros, scales = (along(part.astype(np.float32), source.axis, source.rank) for part in (source.zero, source.scale))
    return _Grid(integers, zeros, scales)


def _arithmetic_grid(call: Any, definitions: Mapping[Any, Any]) -> _Grid | None:
    left, right = call.args
    operand = _value(right, definitions)
    if operand is None and is_call(call, "multiply"):
        left, right = right, left
        operand = _value(right, definitions)
    inner = _grid(left, definitions)
    if inner is None or inner.dtype != "float32" or operand is None or operand.dtype != np.float32:
        return None
    if np.broadcast_shapes(operand.shape, inner.integers.shape) != inner.integers.shape:
        return None
    is_plain = inner.scales.size == 1 and inner.scales.item() == 1
    if is_call(call, "subtract"):
        return replace(inner, zeros=operand) if is_plain and not inner.zeros.any() else None
    return replace(inner, scales=operand) if is_plain else None


def _move(call: Any) -> Callable[[np.ndarray], np.ndarray] | None:
    """Return the NumPy function of an operator that moves elements; None for other operators."""
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
    bounds = [[int(field) for field in argument.fields] for argument in call.args[1:4] if hasattr(argument, "fields")]
    if len(bounds) < 3 or any(start < 0 for start in bounds[1]):
        return None
    axes, starts, ends = bounds
    slices = {axis: slice(start, end) for axis, start, end in zip(axes, starts, ends, strict=True)}

    def cut(part: np.ndarray) -> np.ndarray:
        return part[tuple(slices.get(axis, slice(None)) for axis in range(part.ndim))]

    strides = call.args[4] if len(call.args) > 4 else None
    is_dense = strides is None or all(int(stride) == 1 for stride in strides.fields)
    return cut if is_dense else None
