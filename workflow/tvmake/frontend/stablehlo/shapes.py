"""Convert operators that move elements: reshapes, slices, padding."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tvmake.frontend.stablehlo.conversion import (
    Conversion,
    Converter,
    Unsupported,
    Value,
    extents,
    integers,
)
from tvmake.frontend.stablehlo.sizes.arithmetic import as_sizes, is_symbolic, plain
from tvmake.frontend.stablehlo.source import shape_of_type, tensor_type

from tvm import relax  # isort: skip


def _broadcast_in_dim(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    declared, axes = shape_of_type(op.results[0].type), integers(op, "broadcast_dimensions")
    shape = [extents(values[0])[axes.index(axis)] if size is None else size for axis, size in enumerate(declared)]
    value = expand_axes(conversion, values[0], len(shape), axes)
    return (
        np.broadcast_to(value, shape) if isinstance(value, np.ndarray) else value
    )  # broadcast later to the result's shape


def expand_axes(conversion: Conversion, value: Value, rank: int, axes: Sequence[int]) -> Value:
    """Move a value's axes to positions among a number of axes, of which the others have size 1."""
    thin: list[Any] = [1] * rank
    for extent, axis in zip(extents(value), axes, strict=True):
        thin[axis] = extent
    return conversion.reshape(conversion.transpose(value, np.argsort(axes).tolist()), thin)


def _reshape(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    shape: list[Any] = list(shape_of_type(op.results[0].type))
    own = extents(values[0])
    if None in shape:
        shape = _infer_shape(conversion, own, shape)
    return conversion.reshape(values[0], shape)


def _infer_shape(conversion: Conversion, own: Sequence[Any], shape: Sequence[Any]) -> list[Any]:
    """The shape of a reshape whose result has dynamic dimensions: those of the operand, in order."""
    dynamic = iter([extent for extent in own if not isinstance(extent, int)])
    result = [next(dynamic, 1) if size is None else size for size in shape]
    if not conversion.sizes.are_equal(math.prod(result), math.prod(own)):
        raise Unsupported("to a shape with several unknown dimensions")
    return result


def _transpose(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    return conversion.transpose(values[0], integers(op, "permutation"))


def _iota(_conversion: Conversion, op: Any, _values: list[Value]) -> Any:
    result_type = tensor_type(op.results[0].type)
    if result_type is None:
        raise Unsupported(f"of the type {op.results[0].type}")
    (shape, dtype), axis = (tuple(op.results[0].type.shape), result_type[1]), op.iota_dimension.value
    line = np.arange(shape[axis]).astype(dtype)
    return np.broadcast_to(line.reshape([-1 if a == axis else 1 for a in range(len(shape))]), shape)


def _concatenate(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    axis = op.dimension.value
    values = [value for value in values if not _is_zero(extents(value)[axis])]
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
    # The whole of a dynamic axis: jax writes other slices of it with operands.
    kinds = shape_of_type(op.operands[0].type)
    limits = [
        extents(values[0])[a] if size is None else limit
        for a, (size, limit) in enumerate(zip(kinds, limits, strict=True))
    ]
    return slice_value(conversion, values[0], starts, limits, integers(op, "strides"))


def slice_value(
    conversion: Conversion,
    value: Value,
    starts: Sequence[Any],
    limits: Sequence[Any],
    strides: Sequence[int] | None = None,
) -> Value:
    """Slice a value by start, limit and stride along each axis."""
    strides = list(strides) if strides else [1] * len(starts)
    if isinstance(value, np.ndarray) and all(isinstance(bound, int) for bound in (*starts, *limits)):
        return value[tuple(map(slice, starts, limits, strides))]
    shape, is_same = extents(value), conversion.sizes.have_same_shape
    axes = [a for a in range(len(shape)) if not is_same((starts[a], limits[a], strides[a]), (0, shape[a], 1))]
    if not axes:
        return value
    bounds = [[numbers[a] for a in axes] for numbers in (starts, limits, strides)]
    return conversion.emit(relax.op.strided_slice(conversion.whole(value), axes, *bounds, assume_inbound=True))


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
        if gap and not (isinstance(shape[axis], int) and shape[axis] <= 1):
            # Each element becomes a row of itself and its padding; the last row's padding is removed.
            value = conversion.reshape(value, [*shape[: axis + 1], 1, *shape[axis + 1 :]])
            after = [0] * (axis + 1) + [gap] + [0] * (len(shape) - axis - 1)
            value = _pad_ends(conversion, value, [0] * len(after), after, filling)
            shape[axis] *= gap + 1
            value = conversion.reshape(value, shape)
            shape[axis] -= gap
            value = slice_value(conversion, value, [0] * len(shape), shape)
    least, greatest = conversion.sizes.least, conversion.sizes.greatest
    value = _pad_ends(conversion, value, [greatest(n, 0) for n in low], [greatest(n, 0) for n in high], filling)
    starts = [-least(n, 0) for n in low]
    limits = [extent + least(n, 0) for extent, n in zip(extents(value), high, strict=True)]
    return slice_value(conversion, value, starts, limits)


def _pad_ends(conversion: Conversion, value: Value, low: Sequence[Any], high: Sequence[Any], filling: float) -> Value:
    widths = [*low, *high]
    if not all(isinstance(width, int) for width in widths):
        return _append_padding(conversion, value, low, high, filling)
    if not any(widths):
        return value
    if isinstance(value, np.ndarray):
        return np.pad(value, list(zip(low, high, strict=True)), constant_values=filling)
    dtype = str(value.ty.dtype)
    if dtype == "bool":
        value, filling = conversion.emit(relax.op.astype(value, "int8")), int(filling)
    widths = [n for pair in zip(low, high, strict=True) for n in pair]
    result = conversion.emit(relax.op.nn.pad(value, widths, "constant", filling))
    return conversion.emit(relax.op.astype(result, dtype)) if dtype == "bool" else result


def _append_padding(
    conversion: Conversion, value: Value, low: Sequence[Any], high: Sequence[Any], filling: float
) -> Value:
    """Pad by widths that follow from dynamic dimensions: concatenate with blocks of the padding's value."""
    result = conversion.whole(value)
    for axis, widths in enumerate(zip(low, high, strict=True)):
        blocks = []
        for number, width in enumerate(widths):
            shape = [width if a == axis else extent for a, extent in enumerate(extents(result))]
            if isinstance(width, int) and not width:
                continue
            constant = relax.const(np.full([1] * len(shape), filling), str(result.ty.dtype))
            blocks.append((number, conversion.emit(relax.op.broadcast_to(constant, tuple(shape)))))
        parts = [
            *(block for number, block in blocks if not number),
            result,
            *(block for number, block in blocks if number),
        ]
        result = conversion.emit(relax.op.concat(parts, axis)) if len(parts) > 1 else result
    return result


def _dynamic_slice(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    return slice_from(conversion, values[0], values[1:], integers(op, "slice_sizes"))


def slice_from(conversion: Conversion, value: Value, starts: Sequence[Value], sizes: Sequence[Any]) -> Value:
    """Slice a value by the size and the start along each axis; starts may depend on data."""
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        shape = extents(value)
        if conversion.sizes.have_same_shape([size], [shape[axis]]):
            continue
        start = clip_start(conversion, start, shape[axis] - size)
        if isinstance(start, np.ndarray) and not conversion.sizes.has_counter(start[()]):
            begin = plain(start[()])
            first = [begin if a == axis else 0 for a in range(len(shape))]
            last = [begin + size if a == axis else extent for a, extent in enumerate(shape)]
            value = slice_value(conversion, value, first, last)
        else:
            index, array, start = start, conversion.whole(value), conversion.whole(start)
            indices = relax.op.add(start, conversion.indices(size, str(start.ty.dtype)))
            value = conversion.emit(relax.op.take(array, conversion.emit(indices), axis=axis, mode="clip"))
            if isinstance(index, np.ndarray) and (axis, size) == (0, 1):
                conversion.row_reads[value] = array, plain(index[()])
    return value


def clip_start(conversion: Conversion, start: Value, most: Any) -> Value:
    """Clip a slice's start so that the slice is inside."""
    if isinstance(start, np.ndarray):
        if isinstance(most, int) and not is_symbolic(start):
            return np.asarray(np.clip(start, 0, most))
        dtype = getattr(start, "declared", str(start.dtype))
        clipped = conversion.sizes.evaluate("clamp", [np.asarray(0), start, object_array(most)], dtype)
        assert clipped is not None
        return clipped
    if isinstance(most, int):
        return conversion.emit(relax.op.clip(start, 0, most))
    dtype = str(start.ty.dtype)
    natural = conversion.emit(relax.op.maximum(start, relax.const(0, dtype)))
    return conversion.emit(relax.op.minimum(natural, conversion.whole(as_sizes(object_array(most), dtype))))


def infer_if_fixed(extent: Any) -> Any:
    """An extent of a reshape, which infers one that is fixed."""
    return -1 if isinstance(extent, int) else extent


def object_array(value: Any) -> np.ndarray:
    """A scalar array of a size."""
    result = np.empty((), object)
    result[()] = value
    return result


def _dynamic_update_slice(conversion: Conversion, _op: Any, values: list[Value]) -> Any:
    value, update, starts = values[0], values[1], values[2:]
    shape, sizes = extents(value), extents(update)
    starts = [clip_start(conversion, start, shape[a] - sizes[a]) for a, start in enumerate(starts)]
    axes = [a for a in range(len(shape)) if not conversion.sizes.have_same_shape([sizes[a]], [shape[a]])]
    is_start_known = len(axes) == 1 and isinstance(starts[axes[0]], np.ndarray)
    if is_start_known and not conversion.sizes.has_counter(starts[axes[0]][()]):
        axis, start = axes[0], plain(starts[axes[0]][()])
        before = slice_value(
            conversion, value, [0] * len(shape), [start if a == axis else n for a, n in enumerate(shape)]
        )
        end = start + sizes[axis]
        after = slice_value(conversion, value, [end if a == axis else 0 for a in range(len(shape))], shape)
        parts = [part for part in (before, update, after) if not _is_zero(extents(part)[axis])]
        return parts[0] if len(parts) == 1 else relax.op.concat([conversion.whole(part) for part in parts], axis)
    mask = None
    for axis in axes:
        start = conversion.whole(starts[axis])
        dtype = str(start.ty.dtype)
        index = conversion.emit(relax.op.subtract(conversion.indices(shape[axis], dtype), start))
        last = conversion.whole(as_sizes(object_array(sizes[axis] - 1), dtype))
        is_updated = relax.op.logical_and(
            relax.op.less_equal(relax.const(0, dtype), index), relax.op.less_equal(index, last)
        )
        is_updated = conversion.reshape(
            conversion.emit(is_updated), [infer_if_fixed(shape[axis]) if a == axis else 1 for a in range(len(shape))]
        )
        mask = is_updated if mask is None else conversion.emit(relax.op.logical_and(mask, is_updated))
        update = conversion.emit(relax.op.take(conversion.whole(update), index, axis=axis, mode="clip"))
    return update if mask is None else relax.op.where(mask, conversion.whole(update), conversion.whole(value))


def _is_zero(extent: Any) -> bool:
    return isinstance(extent, int) and not extent


CONVERTERS: dict[str, Converter] = {
    "stablehlo.broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
    "stablehlo.iota": _iota,
    "stablehlo.pad": _pad,
    "stablehlo.reshape": _reshape,
    "stablehlo.reverse": _reverse,
    "stablehlo.slice": _slice,
    "stablehlo.transpose": _transpose,
}
