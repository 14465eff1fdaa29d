"""Operators that move elements: reshapes, slices, padding, gathers."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend.mlir.dialects import stablehlo

from tvmake.frontend.stablehlo.conversion import Conversion, Converter, Unsupported, Value, extents, integers, numbered
from tvmake.frontend.stablehlo.source import tensor_type

from tvm import relax  # isort: skip


def _broadcast_in_dim(at: Conversion, op: Any, values: list[Value]) -> Any:
    shape, places = tuple(op.results[0].type.shape), integers(op, "broadcast_dimensions")
    thin = [1] * len(shape)
    for extent, place in zip(extents(values[0]), places, strict=True):
        thin[place] = extent
    order = np.argsort(places).tolist()
    value = at.reshaped(at.permuted(values[0], order), thin)
    return np.broadcast_to(value, shape) if isinstance(value, np.ndarray) else value  # the rest is the result's shape


def _reshape(at: Conversion, op: Any, values: list[Value]) -> Any:
    return at.reshaped(values[0], tuple(op.results[0].type.shape))


def _transpose(at: Conversion, op: Any, values: list[Value]) -> Any:
    return at.permuted(values[0], integers(op, "permutation"))


def _iota(_at: Conversion, op: Any, _values: list[Value]) -> Any:
    found = tensor_type(op.results[0].type)
    if found is None:
        raise Unsupported(f"of the type {op.results[0].type}")
    (shape, dtype), axis = found, op.iota_dimension.value
    line = np.arange(shape[axis]).astype(dtype)
    return np.broadcast_to(line.reshape([-1 if a == axis else 1 for a in range(len(shape))]), shape)


def _concatenate(at: Conversion, op: Any, values: list[Value]) -> Any:
    axis = op.dimension.value
    values = [value for value in values if extents(value)[axis]]
    if all(isinstance(value, np.ndarray) for value in values):
        return np.concatenate(values, axis)
    return relax.op.concat([at.whole(value) for value in values], axis)


def _reverse(at: Conversion, op: Any, values: list[Value]) -> Any:
    return _flipped(at, values[0], integers(op, "dimensions"))


def _flipped(at: Conversion, value: Value, axes: Sequence[int]) -> Value:
    if isinstance(value, np.ndarray):
        return np.flip(value, tuple(axes))
    for axis in axes:
        value = at.emit(relax.op.flip(value, axis))
    return value


def _slice(at: Conversion, op: Any, values: list[Value]) -> Any:
    starts, limits = integers(op, "start_indices"), integers(op, "limit_indices")
    return sliced(at, values[0], starts, limits, integers(op, "strides"))


def sliced(
    at: Conversion, value: Value, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int] | None = None
) -> Value:
    """A part of a value, by the first element, the one after the last, and the step along each axis."""
    strides = list(strides) if strides else [1] * len(starts)
    if isinstance(value, np.ndarray):
        return value[tuple(map(slice, starts, limits, strides))]
    shape = extents(value)
    axes = [a for a in range(len(shape)) if (starts[a], limits[a], strides[a]) != (0, shape[a], 1)]
    if not axes:
        return value
    parts = ([every[a] for a in axes] for every in (starts, limits, strides))
    return at.emit(relax.op.strided_slice(value, axes, *parts, assume_inbound=True))


def _pad(at: Conversion, op: Any, values: list[Value]) -> Any:
    low, high = integers(op, "edge_padding_low"), integers(op, "edge_padding_high")
    between = integers(op, "interior_padding")
    filling = values[1]
    if not isinstance(filling, np.ndarray):
        raise Unsupported("with a value that depends on data")
    return padded(at, values[0], low, high, between, filling.item())


def padded(
    at: Conversion,
    value: Value,
    low: Sequence[int],
    high: Sequence[int],
    between: Sequence[int] | None = None,
    filling: float = 0,
) -> Value:
    """A value with so many elements added before, after and between its own along each axis; fewer than none are taken away."""
    shape = list(extents(value))
    for axis, gap in enumerate(between or []):
        if gap and shape[axis] > 1:
            # Each element becomes a row of itself and what follows it; the last row's filling goes again.
            value = at.reshaped(value, [*shape[: axis + 1], 1, *shape[axis + 1 :]])
            after = [0] * (axis + 1) + [gap] + [0] * (len(shape) - axis - 1)
            value = _with_edges(at, value, [0] * len(after), after, filling)
            shape[axis] *= gap + 1
            value = at.reshaped(value, shape)
            shape[axis] -= gap
            value = sliced(at, value, [0] * len(shape), shape)
    value = _with_edges(at, value, [max(n, 0) for n in low], [max(n, 0) for n in high], filling)
    starts = [max(-n, 0) for n in low]
    limits = [extent - max(-n, 0) for extent, n in zip(extents(value), high, strict=True)]
    return sliced(at, value, starts, limits)


def _with_edges(at: Conversion, value: Value, low: Sequence[int], high: Sequence[int], filling: float) -> Value:
    if not any(low) and not any(high):
        return value
    if isinstance(value, np.ndarray):
        return np.pad(value, list(zip(low, high, strict=True)), constant_values=filling)
    dtype = str(value.ty.dtype)
    if dtype == "bool":
        value, filling = at.emit(relax.op.astype(value, "int8")), int(filling)
    widths = [n for pair in zip(low, high, strict=True) for n in pair]
    result = at.emit(relax.op.nn.pad(value, widths, "constant", filling))
    return at.emit(relax.op.astype(result, dtype)) if dtype == "bool" else result


def _dynamic_slice(at: Conversion, op: Any, values: list[Value]) -> Any:
    value, starts, sizes = values[0], values[1:], integers(op, "slice_sizes")
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        shape = extents(value)
        if size == shape[axis]:
            continue
        start = _within(at, start, shape[axis] - size)
        if isinstance(start, np.ndarray):
            first = [int(start) if a == axis else 0 for a in range(len(shape))]
            last = [int(start) + size if a == axis else extent for a, extent in enumerate(shape)]
            value = sliced(at, value, first, last)
        else:
            places = relax.op.add(start, relax.const(np.arange(size, dtype=str(start.ty.dtype))))
            value = at.emit(relax.op.take(at.whole(value), at.emit(places), axis=axis, mode="clip"))
    return value


def _within(at: Conversion, start: Value, most: int) -> Value:
    """A start of a slice, moved to where the slice lies inside."""
    if isinstance(start, np.ndarray):
        return np.asarray(np.clip(start, 0, most))
    return at.emit(relax.op.clip(start, 0, most))


def _dynamic_update_slice(at: Conversion, _op: Any, values: list[Value]) -> Any:
    value, update, starts = values[0], values[1], values[2:]
    shape, sizes = extents(value), extents(update)
    starts = [_within(at, start, shape[a] - sizes[a]) for a, start in enumerate(starts)]
    axes = [a for a in range(len(shape)) if sizes[a] != shape[a]]
    if len(axes) == 1 and isinstance(starts[axes[0]], np.ndarray):
        axis, start = axes[0], int(starts[axes[0]])
        before = sliced(at, value, [0] * len(shape), [start if a == axis else n for a, n in enumerate(shape)])
        end = start + sizes[axis]
        after = sliced(at, value, [end if a == axis else 0 for a in range(len(shape))], shape)
        parts = [part for part in (before, update, after) if extents(part)[axis]]
        return parts[0] if len(parts) == 1 else relax.op.concat([at.whole(part) for part in parts], axis)
    mask = None
    for axis in axes:
        start = at.whole(starts[axis])
        dtype = str(start.ty.dtype)
        place = at.emit(relax.op.subtract(relax.const(np.arange(shape[axis], dtype=dtype)), start))
        last = relax.const(sizes[axis] - 1, dtype)
        is_in = relax.op.logical_and(
            relax.op.less_equal(relax.const(0, dtype), place), relax.op.less_equal(place, last)
        )
        is_in = at.reshaped(at.emit(is_in), [-1 if a == axis else 1 for a in range(len(shape))])
        mask = is_in if mask is None else at.emit(relax.op.logical_and(mask, is_in))
        update = at.emit(relax.op.take(at.whole(update), place, axis=axis, mode="clip"))
    return update if mask is None else relax.op.where(mask, at.whole(update), at.whole(value))


def _gather(at: Conversion, op: Any, values: list[Value]) -> Any:
    """Lookups: every axis is looked up by an index, from which a window may reach on, runs along with the indices, or is taken as a whole."""
    operand, indices = values
    numbers = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    sizes = integers(op, "slice_sizes")
    looked_up = list(numbers.start_index_map)
    along = list(numbers.operand_batching_dims)
    shape, index_shape = extents(operand), extents(indices)
    rest = [a for a in range(len(shape)) if a not in looked_up and a not in along]
    if any(sizes[a] != shape[a] for a in rest):  # from the first element on
        shape = tuple(sizes[a] if a in rest else n for a, n in enumerate(shape))
        operand = sliced(at, operand, [0] * len(shape), shape)
    reaching = [a for a in looked_up if sizes[a] != 1]
    last = numbers.index_vector_dim
    batch = [n for a, n in enumerate(index_shape) if a != last]
    indices = at.reshaped(
        at.permuted(indices, [a for a in range(len(index_shape)) if a != last] + [last] * (last < len(index_shape))),
        [*batch, len(looked_up)],
    )
    if len(looked_up) == 1 and isinstance(indices, relax.Var) and indices in at.origins:
        name = at.origins[indices]
        rows = shape[looked_up[0]] - sizes[looked_up[0]] + 1
        at.rows[name] = min(rows, at.rows.get(name, rows))
    axes = along + looked_up
    rows_rank = len(batch)
    places = [_along(index_shape, last, a) for a in numbers.start_indices_batching_dims]
    for number, axis in enumerate(looked_up):
        first, after = [0] * len(batch) + [number], [*batch, number + 1]
        places.append(_within(at, at.reshaped(sliced(at, indices, first, after), batch), shape[axis] - sizes[axis]))
    if reaching:
        batch = [*batch, *(sizes[a] for a in reaching)]
        places = [at.reshaped(place, [*extents(place), *[1] * len(reaching)]) for place in places]
        for number, axis in enumerate(reaching, len(batch) - len(reaching)):
            place = places[axes.index(axis)]
            places[axes.index(axis)] = _sum(at, place, numbered(batch, number))
    if len(axes) == 1:
        axis, table = axes[0], operand
    else:
        axis, table = (
            0,
            at.reshaped(
                at.permuted(operand, axes + rest), [math.prod(shape[a] for a in axes), *(shape[a] for a in rest)]
            ),
        )
    found = at.emit(
        relax.op.take(at.whole(table), at.whole(_linear(at, places, [shape[a] for a in axes])), axis=axis, mode="clip")
    )
    # Rows first, then what was taken as a whole; looked-up axes that the result keeps have an extent of 1.
    before = list(range(axis))
    found = at.permuted(
        found, [a + axis for a in range(len(batch))] + before + list(range(axis + len(batch), len(extents(found))))
    )
    batch, windows_of = batch[:rows_rank], reaching + rest
    order = sorted(range(len(windows_of)), key=windows_of.__getitem__)
    found = at.permuted(found, [*range(rows_rank), *(rows_rank + number for number in order)])
    gone = set(numbers.collapsed_slice_dims) | set(along)
    found = at.reshaped(found, batch + [sizes[a] for a in range(len(shape)) if a not in gone])
    offsets = list(numbers.offset_dims)
    rank = len(extents(found))
    rows, windows = iter(range(rows_rank)), iter(range(rows_rank, rank))
    return at.permuted(found, [next(windows) if a in offsets else next(rows) for a in range(rank)])


def _along(index_shape: Sequence[int], last: int, axis: int) -> np.ndarray:
    """The place along an axis of the indices, in the shape that they have without their last axis."""
    line = np.arange(index_shape[axis], dtype="int32").reshape(
        [-1 if a == axis else 1 for a in range(len(index_shape))]
    )
    full = np.broadcast_to(line, [1 if a == last else n for a, n in enumerate(index_shape)])
    return full.squeeze(last) if last < len(index_shape) else full


def _linear(at: Conversion, places: Sequence[Value], shape: Sequence[int]) -> Value:
    """One index for several, in row-major order."""
    found = places[0]
    for place, extent in zip(places[1:], shape[1:], strict=True):
        if isinstance(found, np.ndarray):
            found = _sum(at, found * extent, place)
        else:
            found = _sum(at, at.emit(relax.op.multiply(found, relax.const(extent, str(found.ty.dtype)))), place)
    return found


def _sum(at: Conversion, one: Value, other: Value) -> Value:
    """Two indices together, in the type of the first one."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.asarray(one + other)
    left, right = at.whole(one), at.whole(other)
    dtype = str(left.ty.dtype)
    return at.emit(
        relax.op.add(left, right if str(right.ty.dtype) == dtype else at.emit(relax.op.astype(right, dtype)))
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
