"""Scatter: writes, sums and the like at indices that an array holds (``x.at[indices].set(values)``)."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend.mlir.dialects import stablehlo

from tvmake.frontend.stablehlo.conversion import Conversion, Converter, Unsupported, Value, extents, numbered
from tvmake.frontend.stablehlo.shapes import sliced

from tvm import relax  # isort: skip

REDUCTIONS = {"add": "add", "multiply": "mul", "maximum": "max", "minimum": "min"}
"""StableHLO's names and Relax'."""


def _scatter(at: Conversion, op: Any, values: list[Value]) -> Any:
    """By the place of each element of the updates in the flat array; windows that do not lie inside are dropped, at a place of their own.

    That is what XLA does. Where several elements go to one place, it is open which of them stays.
    """
    if len(values) != 3:
        raise Unsupported("of several arrays at once")
    operand, indices, updates = values
    shape, size = extents(operand), math.prod(extents(operand))
    combined = reduction(op)
    if not size or not math.prod(extents(updates)):
        return at.whole(operand)
    place, is_inside = _places(at, op, shape, indices, extents(updates))
    dtype = str(at.whole(operand).ty.dtype)
    if is_inside is not None:
        place = at.emit(relax.op.where(at.whole(is_inside), at.whole(place), relax.const(size, "int64")))
    given = [at.reshaped(value, [-1]) for value in (operand, updates)]
    flat, more = (
        at.emit(relax.op.astype(at.whole(one), "int8")) if dtype == "bool" else at.whole(one) for one in given
    )
    if is_inside is not None:
        flat = at.emit(relax.op.concat([flat, relax.const(np.zeros(1, str(flat.ty.dtype)))], axis=0))
    places = at.whole(at.reshaped(place, [-1]))
    found = at.emit(relax.op.scatter_elements(flat, places, more, axis=0, reduction=combined))
    if is_inside is not None:
        found = at.emit(relax.op.strided_slice(found, [0], [0], [size]))
    if dtype == "bool":
        found = at.emit(relax.op.astype(found, "bool"))
    return relax.op.reshape(found, shape)


def reduction(op: Any) -> str:
    """What the region makes of an element and its update."""
    block = op.regions[0].blocks[0]
    *steps, last = list(block.operations)
    if not steps and last.operands[0] == block.arguments[1]:
        return "update"
    name = steps[0].operation.name.removeprefix("stablehlo.") if len(steps) == 1 else ""
    if name not in REDUCTIONS or str(block.arguments[0].type) == "tensor<i1>":
        raise Unsupported("that combines elements by anything but a sum, a product, a maximum or a minimum")
    return REDUCTIONS[name]


def _places(
    at: Conversion, op: Any, shape: Sequence[int], indices: Value, updated: Sequence[int]
) -> "tuple[Value, Value | None]":
    """Where each element of the updates goes in the flat array, int64, and whether it does; None where all do."""
    numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    windows, rank = list(numbers.update_window_dims), len(updated)
    scattered = [axis for axis in range(rank) if axis not in windows]
    along, starts = list(numbers.input_batching_dims), list(numbers.scattered_dims_to_operand_dims)
    kept = [axis for axis in range(len(shape)) if axis not in numbers.inserted_window_dims and axis not in along]
    last, index_shape = numbers.index_vector_dim, extents(indices)
    others = [axis for axis in range(len(index_shape)) if axis != last]
    if last == len(index_shape):
        indices = at.reshaped(indices, [*index_shape, 1])
    indices = at.permuted(indices, [*others, last])
    spread = [updated[axis] if axis in scattered else 1 for axis in range(rank)]
    place: Value = np.zeros([1] * rank, "int64")
    is_inside: Value | None = None
    for axis, extent in enumerate(shape):
        offset: Value = np.zeros([1] * rank, "int64")
        if axis in kept:
            offset = offset + numbered(updated, windows[kept.index(axis)])
        if axis in along:
            offset = offset + numbered(
                updated, scattered[others.index(numbers.scatter_indices_batching_dims[along.index(axis)])]
            )
        if axis in starts:
            number = starts.index(axis)
            first = sliced(at, indices, [0] * len(others) + [number], [*(index_shape[a] for a in others), number + 1])
            start = _total(at, np.zeros([1] * rank, "int64"), at.reshaped(first, spread))
            starts_below = extent - (updated[windows[kept.index(axis)]] if axis in kept else 1) + 1
            if not (isinstance(start, np.ndarray) and start.min() >= 0 and start.max() < starts_below):
                is_inside = _both(at, is_inside, _is_within(at, start, starts_below))
            offset = _total(at, offset, start)
        place = _total(at, place, _scaled(at, offset, math.prod(shape[axis + 1 :])))
    return _spread(at, place, updated), None if is_inside is None else _spread(at, is_inside, updated)


def _total(at: Conversion, one: Value, other: Value) -> Value:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.asarray(one + other.astype("int64"))
    return at.emit(relax.op.add(*(_wide(at, value) for value in (one, other))))


def _scaled(at: Conversion, value: Value, factor: int) -> Value:
    if isinstance(value, np.ndarray):
        return np.asarray(value * factor)
    return at.emit(relax.op.multiply(value, relax.const(factor, "int64")))


def _is_within(at: Conversion, value: Value, extent: int) -> Value:
    if isinstance(value, np.ndarray):
        return np.asarray((value >= 0) & (value < extent))
    low = at.emit(relax.op.greater_equal(value, relax.const(0, "int64")))
    return at.emit(relax.op.logical_and(low, at.emit(relax.op.less(value, relax.const(extent, "int64")))))


def _both(at: Conversion, one: "Value | None", other: Value) -> Value:
    if one is None:
        return other
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.asarray(one & other)
    return at.emit(relax.op.logical_and(at.whole(one), at.whole(other)))


def _wide(at: Conversion, value: Value) -> Any:
    if isinstance(value, np.ndarray):
        return at.whole(value.astype("int64"))
    return value if str(value.ty.dtype) == "int64" else at.emit(relax.op.astype(value, "int64"))


def _spread(at: Conversion, value: Value, shape: Sequence[int]) -> Value:
    if isinstance(value, np.ndarray):
        return np.broadcast_to(value, shape)
    return value if extents(value) == tuple(shape) else at.emit(relax.op.broadcast_to(value, tuple(shape)))


CONVERTERS: dict[str, Converter] = {"stablehlo.scatter": _scatter}
