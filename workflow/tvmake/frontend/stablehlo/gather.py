"""Convert lookups of elements, rows and windows."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend.mlir.dialects import stablehlo

from tvmake.frontend.stablehlo.conversion import (
    Conversion,
    Converter,
    Value,
    axis_indices,
    extents,
    integers,
)
from tvmake.frontend.stablehlo.shapes import clip_start, object_array, slice_from, slice_value
from tvmake.frontend.stablehlo.sizes.arithmetic import as_sizes, is_symbolic

from tvm import relax  # isort: skip


def _gather(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    return gather_windows(conversion, op, values, integers(op, "slice_sizes"))


def gather_windows(conversion: Conversion, op: Any, values: list[Value], sizes: Sequence[Any]) -> Any:
    """Look up elements or windows. An axis is indexed, is a batch axis of the indices, or is sliced from its first element."""
    operand, indices = values
    numbers = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    is_same, is_fixed = conversion.sizes.have_same_shape, all(isinstance(n, int) for n in extents(operand))
    if isinstance(indices, np.ndarray) and indices.ndim == 1 and not numbers.index_vector_dim and not is_fixed:
        return _slice_window(conversion, numbers, operand, indices, sizes)
    indexed = list(numbers.start_index_map)
    along = list(numbers.operand_batching_dims)
    shape, index_shape = extents(operand), extents(indices)
    rest = [a for a in range(len(shape)) if a not in indexed and a not in along]
    if any(not is_same([sizes[a]], [shape[a]]) for a in rest):
        shape = tuple(sizes[a] if a in rest else n for a, n in enumerate(shape))
        operand = slice_value(conversion, operand, [0] * len(shape), shape)
    window_axes = [a for a in indexed if not is_same([sizes[a]], [1])]
    last = numbers.index_vector_dim
    batch = [n for a, n in enumerate(index_shape) if a != last]
    indices = conversion.reshape(
        conversion.transpose(
            indices, [a for a in range(len(index_shape)) if a != last] + [last] * (last < len(index_shape))
        ),
        [*batch, len(indexed)],
    )
    rows = shape[indexed[0]] - sizes[indexed[0]] + 1 if len(indexed) == 1 else None
    if isinstance(rows, int) and isinstance(indices, relax.Var) and indices in conversion.origins:
        name = conversion.origins[indices]
        conversion.rows[name] = min(rows, conversion.rows.get(name, rows))
    axes = along + indexed
    rows_rank = len(batch)
    positions = [_batch_indices(conversion, index_shape, last, a) for a in numbers.start_indices_batching_dims]
    for number, axis in enumerate(indexed):
        first, after = [0] * len(batch) + [number], [*batch, number + 1]
        start = conversion.reshape(slice_value(conversion, indices, first, after), batch)
        positions.append(clip_start(conversion, start, shape[axis] - sizes[axis]))
    if window_axes:
        batch = [*batch, *(sizes[a] for a in window_axes)]
        positions = [conversion.reshape(index, [*extents(index), *[1] * len(window_axes)]) for index in positions]
        for number, axis in enumerate(window_axes, len(batch) - len(window_axes)):
            index = positions[axes.index(axis)]
            positions[axes.index(axis)] = _sum(conversion, index, indices_along(conversion, batch, number))
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


def _slice_window(
    conversion: Conversion, numbers: Any, operand: Value, indices: np.ndarray, sizes: Sequence[Any]
) -> Any:
    """Look up one window at a start that does not depend on data."""
    starts: list[Value] = [np.asarray(0, "int32")] * len(sizes)
    for number, axis in enumerate(numbers.start_index_map):
        starts[axis] = indices[number : number + 1].reshape(())
    window = slice_from(conversion, operand, starts, sizes)
    kept = [size for axis, size in enumerate(sizes) if axis not in set(numbers.collapsed_slice_dims)]
    return conversion.reshape(window, kept)


def indices_along(conversion: Conversion, shape: Sequence[Any], axis: int) -> Value:
    """The indices 0, 1 … along an axis, int64, with size 1 along other axes."""
    if isinstance(shape[axis], int):
        return axis_indices(shape, axis)
    line = conversion.indices(shape[axis], "int64")
    return conversion.reshape(line, [shape[axis] if a == axis else 1 for a in range(len(shape))])


def _batch_indices(conversion: Conversion, index_shape: Sequence[Any], last: int, axis: int) -> Value:
    """The indices 0, 1 … along an axis of the index array, broadcast to its shape without the last axis."""
    shape = [n for a, n in enumerate(index_shape) if a != last]
    if not all(isinstance(n, int) for n in shape):
        return conversion.broadcast(conversion.whole(indices_along(conversion, shape, axis - (axis > last))), shape)
    line = np.arange(index_shape[axis], dtype="int32").reshape(
        [-1 if a == axis else 1 for a in range(len(index_shape))]
    )
    full = np.broadcast_to(line, [1 if a == last else n for a, n in enumerate(index_shape)])
    return full.squeeze(last) if last < len(index_shape) else full


def _linear_index(conversion: Conversion, indices: Sequence[Value], shape: Sequence[Any]) -> Value:
    """The row-major index for one index per axis."""
    result = indices[0]
    for index, extent in zip(indices[1:], shape[1:], strict=True):
        if isinstance(result, np.ndarray) and isinstance(extent, int):
            result = _sum(conversion, result * extent, index)
        else:
            result = conversion.whole(result)
            factor = conversion.whole(as_sizes(object_array(extent), str(result.ty.dtype)))
            result = _sum(conversion, conversion.emit(relax.op.multiply(result, factor)), index)
    return result


def _sum(conversion: Conversion, first: Value, second: Value) -> Value:
    """The sum of two indices, in the dtype of the first."""
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        if is_symbolic(first) or is_symbolic(second):
            return as_sizes(first + second, getattr(first, "declared", "int64"))
        return np.asarray(first + second)
    left, right = conversion.whole(first), conversion.whole(second)
    dtype = str(left.ty.dtype)
    return conversion.emit(
        relax.op.add(left, right if str(right.ty.dtype) == dtype else conversion.emit(relax.op.astype(right, dtype)))
    )


CONVERTERS: dict[str, Converter] = {"stablehlo.gather": _gather}
