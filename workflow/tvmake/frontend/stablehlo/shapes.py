"""Convert operators that move elements: reshapes, slices, padding, gathers."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend.mlir.dialects import stablehlo

from tvmake.frontend.stablehlo.conversion import (
    Conversion,
    Converter,
    Unsupported,
    Value,
    axis_indices,
    extents,
    integers,
)
from tvmake.frontend.stablehlo.source import tensor_type

from tvm import relax  # isort: skip


def _broadcast_in_dim(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    shape, axes = tuple(op.results[0].type.shape), integers(op, "broadcast_dimensions")
    thin = [1] * len(shape)
    for extent, axis in zip(extents(values[0]), axes, strict=True):
        thin[axis] = extent
    order = np.argsort(axes).tolist()
    value = conversion.reshape(conversion.transpose(values[0], order), thin)
    return (
        np.broadcast_to(value, shape) if isinstance(value, np.ndarray) else value
    )  # broadcast later to the result's shape


def _reshape(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    return conversion.reshape(values[0], tuple(op.results[0].type.shape))


def _transpose(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    return conversion.transpose(values[0], integers(op, "permutation"))


def _iota(_conversion: Conversion, op: Any, _values: list[Value]) -> Any:
    result_type = tensor_type(op.results[0].type)
    if result_type is None:
        raise Unsupported(f"of the type {op.results[0].type}")
    (shape, dtype), axis = result_type, op.iota_dimension.value
    line = np.arange(shape[axis]).astype(dtype)
    return np.broadcast_to(line.reshape([-1 if a == axis else 1 for a in range(len(shape))]), shape)


def _concatenate(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    axis = op.dimension.value
    values = [value for value in values if extents(value)[axis]]
    if all(isinstance(value, np.ndarray) for value in values):
        return np.concatenate(values, axis)
    return relax.op.concat([conversion.whole(value) for value in values], axis)


def _reverse(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    return _flip(conversion, values[0], integers(op, "dimensions"))


def _flip(conversion: Conversion, value: Value, axes: Sequence[int]) -> Value:
    if isinstance(value, np.ndarray):
        return np.flip(value, tuple(axes))
    for axis in axes:
        value = conversion.emit(relax.op.flip(value, axis))
    return value


def _slice(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    starts, limits = integers(op, "start_indices"), integers(op, "limit_indices")
    return slice_value(conversion, values[0], starts, limits, integers(op, "strides"))


def slice_value(
    conversion: Conversion,
    value: Value,
    starts: Sequence[int],
    limits: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Value:
    """Slice a value by start, limit and stride along each axis."""
    strides = list(strides) if strides else [1] * len(starts)
    if isinstance(value, np.ndarray):
        return value[tuple(map(slice, starts, limits, strides))]
    shape = extents(value)
    axes = [a for a in range(len(shape)) if (starts[a], limits[a], strides[a]) != (0, shape[a], 1)]
    if not axes:
        return value
    bounds = ([numbers[a] for a in axes] for numbers in (starts, limits, strides))
    return conversion.emit(relax.op.strided_slice(value, axes, *bounds, assume_inbound=True))


def _pad(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    low, high = integers(op, "edge_padding_low"), integers(op, "edge_padding_high")
    between = integers(op, "interior_padding")
    filling = values[1]
    if not isinstance(filling, np.ndarray):
        raise Unsupported("with a value that depends on data")
    return pad_value(conversion, values[0], low, high, between, filling.item())


def pad_value(
    conversion: Conversion,
    value: Value,
    low: Sequence[int],
    high: Sequence[int],
    between: Sequence[int] | None = None,
    filling: float = 0,
) -> Value:
    """Pad a value before, after and between its elements along each axis; negative widths crop it."""
    shape = list(extents(value))
    for axis, gap in enumerate(between or []):
        if gap and shape[axis] > 1:
            # Each element becomes a row of itself and its padding; the last row's padding is removed.
            value = conversion.reshape(value, [*shape[: axis + 1], 1, *shape[axis + 1 :]])
            after = [0] * (axis + 1) + [gap] + [0] * (len(shape) - axis - 1)
            value = _pad_ends(conversion, value, [0] * len(after), after, filling)
            shape[axis] *= gap + 1
            value = conversion.reshape(value, shape)
            shape[axis] -= gap
            value = slice_value(conversion, value, [0] * len(shape), shape)
    value = _pad_ends(conversion, value, [max(n, 0) for n in low], [max(n, 0) for n in high], filling)
    starts = [max(-n, 0) for n in low]
    limits = [extent - max(-n, 0) for extent, n in zip(extents(value), high, strict=True)]
    return slice_value(conversion, value, starts, limits)


def _pad_ends(conversion: Conversion, value: Value, low: Sequence[int], high: Sequence[int], filling: float) -> Value:
    if not any(low) and not any(high):
        return value
    if isinstance(value, np.ndarray):
        return np.pad(value, list(zip(low, high, strict=True)), constant_values=filling)
    dtype = str(value.ty.dtype)
    if dtype == "bool":
        value, filling = conversion.emit(relax.op.astype(value, "int8")), int(filling)
    widths = [n for pair in zip(low, high, strict=True) for n in pair]
    result = conversion.emit(relax.op.nn.pad(value, widths, "constant", filling))
    return conversion.emit(relax.op.astype(result, dtype)) if dtype == "bool" else result


def _dynamic_slice(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    value, starts, sizes = values[0], values[1:], integers(op, "slice_sizes")
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        shape = extents(value)
        if size == shape[axis]:
            continue
        start = _clip(conversion, start, shape[axis] - size)
        if isinstance(start, np.ndarray):
            first = [int(start) if a == axis else 0 for a in range(len(shape))]
            last = [int(start) + size if a == axis else extent for a, extent in enumerate(shape)]
            value = slice_value(conversion, value, first, last)
        else:
            indices = relax.op.add(start, relax.const(np.arange(size, dtype=str(start.ty.dtype))))
            value = conversion.emit(
                relax.op.take(conversion.whole(value), conversion.emit(indices), axis=axis, mode="clip")
            )
    return value


def _clip(conversion: Conversion, start: Value, most: int) -> Value:
    """Clip a slice's start so that the slice is inside."""
    if isinstance(start, np.ndarray):
        return np.asarray(np.clip(start, 0, most))
    return conversion.emit(relax.op.clip(start, 0, most))


def _dynamic_update_slice(conversion: Conversion, _op: Any, values: list[Value]) -> Any:
    value, update, starts = values[0], values[1], values[2:]
    shape, sizes = extents(value), extents(update)
    starts = [_clip(conversion, start, shape[a] - sizes[a]) for a, start in enumerate(starts)]
    axes = [a for a in range(len(shape)) if sizes[a] != shape[a]]
    if len(axes) == 1 and isinstance(starts[axes[0]], np.ndarray):
        axis, start = axes[0], int(starts[axes[0]])
        before = slice_value(
            conversion, value, [0] * len(shape), [start if a == axis else n for a, n in enumerate(shape)]
        )
        end = start + sizes[axis]
        after = slice_value(conversion, value, [end if a == axis else 0 for a in range(len(shape))], shape)
        parts = [part for part in (before, update, after) if extents(part)[axis]]
        return parts[0] if len(parts) == 1 else relax.op.concat([conversion.whole(part) for part in parts], axis)
    mask = None
    for axis in axes:
        start = conversion.whole(starts[axis])
        dtype = str(start.ty.dtype)
        index = conversion.emit(relax.op.subtract(relax.const(np.arange(shape[axis], dtype=dtype)), start))
        last = relax.const(sizes[axis] - 1, dtype)
        is_updated = relax.op.logical_and(
            relax.op.less_equal(relax.const(0, dtype), index), relax.op.less_equal(index, last)
        )
        is_updated = conversion.reshape(
            conversion.emit(is_updated), [-1 if a == axis else 1 for a in range(len(shape))]
        )
        mask = is_updated if mask is None else conversion.emit(relax.op.logical_and(mask, is_updated))
        update = conversion.emit(relax.op.take(conversion.whole(update), index, axis=axis, mode="clip"))
    return update if mask is None else relax.op.where(mask, conversion.whole(update), conversion.whole(value))


def _gather(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    """Look up elements or windows. An axis is indexed, is a batch axis of the indices, or is sliced from its first element."""
    operand, indices = values
    numbers = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    sizes = integers(op, "slice_sizes")
    indexed = list(numbers.start_index_map)
    along = list(numbers.operand_batching_dims)
    shape, index_shape = extents(operand), extents(indices)
    rest = [a for a in range(len(shape)) if a not in indexed and a not in along]
    if any(sizes[a] != shape[a] for a in rest):
        shape = tuple(sizes[a] if a in rest else n for a, n in enumerate(shape))
        operand = slice_value(conversion, operand, [0] * len(shape), shape)
    window_axes = [a for a in indexed if sizes[a] != 1]
    last = numbers.index_vector_dim
    batch = [n for a, n in enumerate(index_shape) if a != last]
    indices = conversion.reshape(
        conversion.transpose(
            indices, [a for a in range(len(index_shape)) if a != last] + [last] * (last < len(index_shape))
        ),
        [*batch, len(indexed)],
    )
    if len(indexed) == 1 and isinstance(indices, relax.Var) and indices in conversion.origins:
        name = conversion.origins[indices]
        rows = shape[indexed[0]] - sizes[indexed[0]] + 1
        conversion.rows[name] = min(rows, conversion.rows.get(name, rows))
    axes = along + indexed
    rows_rank = len(batch)
    positions = [_batch_indices(index_shape, last, a) for a in numbers.start_indices_batching_dims]
    for number, axis in enumerate(indexed):
        first, after = [0] * len(batch) + [number], [*batch, number + 1]
        start = conversion.reshape(slice_value(conversion, indices, first, after), batch)
        positions.append(_clip(conversion, start, shape[axis] - sizes[axis]))
    if window_axes:
        batch = [*batch, *(sizes[a] for a in window_axes)]
        positions = [conversion.reshape(index, [*extents(index), *[1] * len(window_axes)]) for index in positions]
        for number, axis in enumerate(window_axes, len(batch) - len(window_axes)):
            index = positions[axes.index(axis)]
            positions[axes.index(axis)] = _sum(conversion, index, axis_indices(batch, number))
    if len(axes) == 1:
        axis, table = axes[0], operand
    else:
        axis, table = (
            0,
            conversion.reshape(
                conversion.transpose(operand, axes + rest),
                [math.prod(shape[a] for a in axes), *(shape[a] for a in rest)],
            ),
        )
    flat_index = _linear_index(conversion, positions, [shape[a] for a in axes])
    result = conversion.emit(
        relax.op.take(conversion.whole(table), conversion.whole(flat_index), axis=axis, mode="clip")
    )
    # Rows first, then sliced axes; indexed axes that the result keeps have size 1.
    before = list(range(axis))
    result = conversion.transpose(
        result, [a + axis for a in range(len(batch))] + before + list(range(axis + len(batch), len(extents(result))))
    )
    batch, kept_axes = batch[:rows_rank], window_axes + rest
    order = sorted(range(len(kept_axes)), key=kept_axes.__getitem__)
    result = conversion.transpose(result, [*range(rows_rank), *(rows_rank + number for number in order)])
    removed_axes = set(numbers.collapsed_slice_dims) | set(along)
    result = conversion.reshape(result, batch + [sizes[a] for a in range(len(shape)) if a not in removed_axes])
    offsets = list(numbers.offset_dims)
    rank = len(extents(result))
    rows, windows = iter(range(rows_rank)), iter(range(rows_rank, rank))
    return conversion.transpose(result, [next(windows) if a in offsets else next(rows) for a in range(rank)])


def _batch_indices(index_shape: Sequence[int], last: int, axis: int) -> np.ndarray:
    """The indices 0, 1 … along an axis of the index array, broadcast to its shape without the last axis."""
    line = np.arange(index_shape[axis], dtype="int32").reshape(
        [-1 if a == axis else 1 for a in range(len(index_shape))]
    )
    full = np.broadcast_to(line, [1 if a == last else n for a, n in enumerate(index_shape)])
    return full.squeeze(last) if last < len(index_shape) else full


def _linear_index(conversion: Conversion, indices: Sequence[Value], shape: Sequence[int]) -> Value:
    """The row-major index for one index per axis."""
    result = indices[0]
    for index, extent in zip(indices[1:], shape[1:], strict=True):
        if isinstance(result, np.ndarray):
            result = _sum(conversion, result * extent, index)
        else:
            result = _sum(
                conversion, conversion.emit(relax.op.multiply(result, relax.const(extent, str(result.ty.dtype)))), index
            )
    return result


def _sum(conversion: Conversion, first: Value, second: Value) -> Value:
    """The sum of two indices, in the dtype of the first."""
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return np.asarray(first + second)
    left, right = conversion.whole(first), conversion.whole(second)
    dtype = str(left.ty.dtype)
    return conversion.emit(
        relax.op.add(left, right if str(right.ty.dtype) == dtype else conversion.emit(relax.op.astype(right, dtype)))
    )


CONVERTERS: dict[str, Converter] = {
    "stablehlo.broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
    "stablehlo.gather": _gather,
    "stablehlo.iota": _iota,
    "stablehlo.pad": _pad,
    "stablehlo.reshape": _reshape,
    "stablehlo.reverse": _reverse,
    "stablehlo.slice": _slice,
    "stablehlo.transpose": _transpose,
}
