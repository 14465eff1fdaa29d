"""Convert scatters: writes, sums and other reductions at an array of indices (``x.at[indices].set(values)``)."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend.mlir.dialects import stablehlo

from tvmake.frontend.stablehlo.conversion import Conversion, Converter, Unsupported, Value, extents
from tvmake.frontend.stablehlo.gather import indices_along
from tvmake.frontend.stablehlo.shapes import infer_if_fixed, slice_value

from tvm import relax  # isort: skip

REDUCTIONS = {"add": "add", "multiply": "mul", "maximum": "max", "minimum": "min"}
"""Relax's names by StableHLO's."""


def _scatter(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    """Scatter into the flat array; windows that are not inside go to one extra element, which is dropped as in XLA.

    If several updates have the same index, any of them may remain.
    """
    if len(values) != 3:
        raise Unsupported("of several arrays at once")
    operand, indices, updates = values
    shape, size = extents(operand), math.prod(extents(operand))
    combined = reduction(op)
    if 0 in [n for n in (*shape, *extents(updates)) if isinstance(n, int)]:
        return conversion.whole(operand)
    index, is_inside = _flat_indices(conversion, op, shape, indices, extents(updates))
    dtype = str(conversion.whole(operand).ty.dtype)
    if is_inside is not None:
        index = conversion.emit(
            relax.op.where(conversion.whole(is_inside), conversion.whole(index), conversion.number(size))
        )
    flat_values = [
        conversion.reshape(value, [infer_if_fixed(math.prod(extents(value)))]) for value in (operand, updates)
    ]
    flat, flat_updates = (
        conversion.emit(relax.op.astype(conversion.whole(value), "int8"))
        if dtype == "bool"
        else conversion.whole(value)
        for value in flat_values
    )
    if is_inside is not None:
        flat = conversion.emit(relax.op.concat([flat, relax.const(np.zeros(1, str(flat.ty.dtype)))], axis=0))
    flat_index = conversion.whole(conversion.reshape(index, [infer_if_fixed(math.prod(extents(index)))]))
    result = conversion.emit(relax.op.scatter_elements(flat, flat_index, flat_updates, axis=0, reduction=combined))
    if is_inside is not None:
        result = conversion.emit(relax.op.strided_slice(result, [0], [0], [size]))
    if dtype == "bool":
        result = conversion.emit(relax.op.astype(result, "bool"))
    return relax.op.reshape(result, shape)


def reduction(op: Any) -> str:
    """The reduction of an element and its update in the operator's region."""
    block = op.regions[0].blocks[0]
    *steps, last = list(block.operations)
    if not steps and last.operands[0] == block.arguments[1]:
        return "update"
    name = steps[0].operation.name.removeprefix("stablehlo.") if len(steps) == 1 else ""
    if name not in REDUCTIONS or str(block.arguments[0].type) == "tensor<i1>":
        raise Unsupported("that combines elements by anything but a sum, a product, a maximum or a minimum")
    return REDUCTIONS[name]


def _flat_indices(
    conversion: Conversion, op: Any, shape: Sequence[int], indices: Value, updated: Sequence[int]
) -> "tuple[Value, Value | None]":
    """For every element of the updates, its index in the flat array, int64, and whether it is inside; None if all are."""
    numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    windows, rank = list(numbers.update_window_dims), len(updated)
    scattered = [axis for axis in range(rank) if axis not in windows]
    along, starts = list(numbers.input_batching_dims), list(numbers.scattered_dims_to_operand_dims)
    window_axes = [axis for axis in range(len(shape)) if axis not in numbers.inserted_window_dims and axis not in along]
    last, index_shape = numbers.index_vector_dim, extents(indices)
    index_axes = [axis for axis in range(len(index_shape)) if axis != last]
    if last == len(index_shape):
        indices = conversion.reshape(indices, [*index_shape, 1])
    indices = conversion.transpose(indices, [*index_axes, last])
    start_shape = [updated[axis] if axis in scattered else 1 for axis in range(rank)]
    flat_index: Value = np.zeros([1] * rank, "int64")
    is_inside: Value | None = None
    for axis, extent in enumerate(shape):
        offset: Value = np.zeros([1] * rank, "int64")
        if axis in window_axes:
            offset = _add(conversion, offset, indices_along(conversion, updated, windows[window_axes.index(axis)]))
        if axis in along:
            batch_axis = scattered[index_axes.index(numbers.scatter_indices_batching_dims[along.index(axis)])]
            offset = _add(conversion, offset, indices_along(conversion, updated, batch_axis))
        if axis in starts:
            number = starts.index(axis)
            limits = [*(index_shape[a] for a in index_axes), number + 1]
            first = slice_value(conversion, indices, [0] * len(index_axes) + [number], limits)
            start = _add(conversion, np.zeros([1] * rank, "int64"), conversion.reshape(first, start_shape))
            starts_below = extent - (updated[windows[window_axes.index(axis)]] if axis in window_axes else 1) + 1
            if not (
                isinstance(start, np.ndarray)
                and start.min() >= 0
                and conversion.sizes.is_at_most(int(start.max()) + 1, starts_below)
            ):
                is_inside = _and(conversion, is_inside, _is_within(conversion, start, starts_below))
            offset = _add(conversion, offset, start)
        flat_index = _add(conversion, flat_index, _multiply(conversion, offset, math.prod(shape[axis + 1 :])))
    return _broadcast(conversion, flat_index, updated), None if is_inside is None else _broadcast(
        conversion, is_inside, updated
    )


def _add(conversion: Conversion, left: Value, right: Value) -> Value:
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return np.asarray(left + right.astype("int64"))
    return conversion.emit(relax.op.add(*(_to_int64(conversion, value) for value in (left, right))))


def _multiply(conversion: Conversion, value: Value, factor: Any) -> Value:
    if isinstance(value, np.ndarray) and (isinstance(factor, int) or not value.any()):
        return np.asarray(value * factor) if isinstance(factor, int) else value
    return conversion.emit(relax.op.multiply(conversion.whole(value), conversion.number(factor)))


def _is_within(conversion: Conversion, value: Value, extent: Any) -> Value:
    if isinstance(value, np.ndarray) and isinstance(extent, int):
        return np.asarray((value >= 0) & (value < extent))
    value = conversion.whole(value)
    low = conversion.emit(relax.op.greater_equal(value, relax.const(0, "int64")))
    return conversion.emit(relax.op.logical_and(low, conversion.emit(relax.op.less(value, conversion.number(extent)))))


def _and(conversion: Conversion, left: "Value | None", right: Value) -> Value:
    if left is None:
        return right
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return np.asarray(left & right)
    return conversion.emit(relax.op.logical_and(conversion.whole(left), conversion.whole(right)))


def _to_int64(conversion: Conversion, value: Value) -> Any:
    if isinstance(value, np.ndarray):
        return conversion.whole(value.astype("int64"))
    return value if str(value.ty.dtype) == "int64" else conversion.emit(relax.op.astype(value, "int64"))


def _broadcast(conversion: Conversion, value: Value, shape: Sequence[Any]) -> Value:
    if isinstance(value, np.ndarray) and all(isinstance(size, int) for size in shape):
        return np.broadcast_to(value, shape)
    if conversion.sizes.have_same_shape(extents(value), shape):
        return value
    return conversion.emit(relax.op.broadcast_to(conversion.whole(value), tuple(shape)))


CONVERTERS: dict[str, Converter] = {"stablehlo.scatter": _scatter}
