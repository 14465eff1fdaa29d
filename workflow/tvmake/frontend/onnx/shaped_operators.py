"""Operators that take a shape or positions which the network computes from its dynamic dimensions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from onnx import numpy_helper

from tvmake.frontend.onnx import dynamic_padding
from tvmake.frontend.onnx.dynamic_resize import convert_resize
from tvmake.frontend.onnx.shape_values import (
    COMPARISONS,
    EVALUATED,
    Held,
    ShapeValues,
    Values,
    as_array,
    as_expression,
    element_type,
    is_symbolic,
    reshape_values,
    shape_of,
    slice_values,
)

from tvm import relax, tirx  # isort: skip


BEYOND = 1 << 28
"""An end of a slice from here on is that of the dimension: exporters write 10^9 as well, for which memory would be planned."""


Converter = Callable[[ShapeValues, Sequence[Any], Mapping[str, Any]], Any | None]
"""From an operator's operands and attributes to its value; None leaves the node to TVM's importer."""


def evaluate(extents: ShapeValues, operator: str, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any | None:
    """The value of an operator on known integers of which some are dimensions; None if it is not computed from them."""
    if operator not in EVALUATED:
        return None
    held = [extents.of(value) for value in inputs]
    if not _has_dimensions(held) or any(
        values is None and value is not None for values, value in zip(held, inputs, strict=True)
    ):
        return None
    result = EVALUATED[operator](extents, held, attributes)
    if result is None:
        return None
    return extents.tensor(result, "bool" if operator in COMPARISONS else element_type(operator, inputs, attributes))


def _has_dimensions(held: Held) -> bool:
    return any(values is not None and is_symbolic(values) for values in held)


def _of_dimensions(
    convert: Callable[[ShapeValues, Sequence[Any], Held, Mapping[str, Any]], Any | None],
    look_up: Callable[[ShapeValues, Any], Values | None] = ShapeValues.of,
    includes_data: bool = False,
) -> Converter:
    """A converter for operands that hold dynamic dimensions.

    Args:
        convert: takes the operands' known values, too.
        look_up: finds the known values of an operand.
        includes_data: whether it also converts data with dynamic dimensions.
    """

    def converter(extents: ShapeValues, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any | None:
        held = [look_up(extents, value) for value in inputs]
        is_dynamic = includes_data and is_symbolic(as_array(shape_of(inputs[0]) or []))
        return convert(extents, inputs, held, attributes) if is_dynamic or _has_dimensions(held) else None

    return converter


def _reshape(extents: ShapeValues, inputs: Sequence[Any], held: Held, attributes: Mapping[str, Any]) -> Any | None:
    data, target = inputs[0], held[1]
    if held[0] is not None and (result := reshape_values(extents, held, attributes)) is not None:
        return extents.tensor(result)
    if target is None or not isinstance(data.ty, relax.TensorType):
        return None
    if attributes.get("allowzero") and any(isinstance(one, int) and one == 0 for one in target):
        return None  # 0 copies an extent for Relax
    return relax.op.reshape(data, [as_expression(one) for one in target])


def _expand(extents: ShapeValues, inputs: Sequence[Any], held: Held, attributes: Mapping[str, Any]) -> Any | None:
    """ShapeValues broadcast both ways; the package checks that a dynamic one is what it is broadcast to."""
    target, shape = held[1], shape_of(inputs[0])
    if target is None or shape is None:
        return None
    rank = max(len(shape), len(target))
    sizes, wanted = ([1] * (rank - len(part)) + list(part) for part in (shape, target))
    result = [b if isinstance(a, int) and a == 1 else a if isinstance(a, int) else b if b != 1 else a
              for a, b in zip(sizes, wanted, strict=True)]  # fmt: skip
    return relax.op.broadcast_to(inputs[0], relax.ShapeExpr([as_expression(one) for one in result]))


def _constant_of_shape(
    extents: ShapeValues, inputs: Sequence[Any], held: Held, attributes: Mapping[str, Any]
) -> Any | None:
    value = attributes.get("value")
    number = numpy_helper.to_array(value).reshape(()) if value is not None else np.float32(0)
    shape = relax.ShapeExpr([as_expression(one) for one in held[0]])  # type: ignore[union-attr]
    return relax.op.broadcast_to(relax.const(number, str(number.dtype)), shape)


def _range(extents: ShapeValues, inputs: Sequence[Any], held: Held, attributes: Mapping[str, Any]) -> Any | None:
    if any(part is None for part in held):
        return None
    dtype = element_type("Range", inputs, attributes)
    places = relax.op.arange(*(as_expression(part.reshape(-1)[0]) for part in held), dtype="int64")  # type: ignore[union-attr]
    return places if dtype == "int64" else relax.op.astype(extents.builder.emit(places), dtype)


def _slice(extents: ShapeValues, inputs: Sequence[Any], held: Held, attributes: Mapping[str, Any]) -> Any | None:
    """A slice between places that are counted from the front, and lie within."""
    if held[0] is not None:
        result = None if any(part is None and given is not None for part, given in zip(held, inputs, strict=True)) else (
            slice_values(extents, held, attributes)
        )  # fmt: skip
        if result is not None:
            return extents.tensor(result, element_type("Slice", inputs, attributes))
    shape = shape_of(inputs[0])
    starts, ends, axes, steps = (held[index] if index < len(held) else None for index in range(1, 5))
    if shape is None or starts is None or ends is None or (steps is not None and is_symbolic(steps)):
        return None
    places = [int(one) % len(shape) for one in axes] if axes is not None else list(range(len(starts)))
    strides = [1] * len(places) if steps is None else [int(one) for one in steps]
    if not any(isinstance(one, tvm.ir.Expr) for one in [*starts, *ends, *(shape[axis] for axis in places)]):
        return None
    data, forwards = inputs[0], []
    for axis, start, end, stride in zip(places, starts, ends, strides, strict=True):
        if stride > 0:
            pair = [_index_from_front(extents, one, shape[axis]) for one in (start, end)]
            forwards.append((axis, pair[0], extents.greatest(*pair), stride))
            continue
        first, last = (_index_from_back(extents, one, shape[axis]) for one in (start, end))
        count = extents.greatest((first - last - stride - 1) // -stride, 0)
        positions = relax.op.arange(*map(as_expression, (first, first + count * stride, stride)), dtype="int64")
        data = extents.builder.emit(relax.op.take(data, extents.builder.emit(positions), axis))
    if not forwards:
        return data
    kept, begins, stops, jumps = zip(*forwards, strict=True)
    bounds = (list(map(as_expression, each)) for each in (begins, stops, jumps))
    return relax.op.strided_slice(data, list(kept), *bounds, assume_inbound=True)


def _index_from_back(extents: ShapeValues, place: Any, extent: Any) -> Any:
    """A place of an axis that is gone through from its end, counted from the front: from -1 to the last."""
    low, high = extents.bounds(place)
    from_end = extents.greatest(extent + place, -1)
    within = extents.least(place, extent - 1)
    return (
        from_end
        if high < 0
        else within
        if low >= 0
        else tirx.Select(place < 0, *map(as_expression, (from_end, within)))
    )


def _index_from_front(extents: ShapeValues, place: Any, extent: Any) -> Any:
    """A place of an axis counted from the front, at most its end."""
    if not isinstance(place, tvm.ir.Expr) and place >= BEYOND:
        return extent
    low, high = extents.bounds(place)
    if high < 0:
        return extents.greatest(extent + place, 0)
    if low >= 0:
        return extents.least(place, extent)
    before = extents.difference(place, extent)
    if before[0] == before[1] and before[0] in (-1, -2):
        return extents.greatest(place, 0)  # the last but one of one element is before it, counted from either end
    from_end = extents.greatest(extent + place, 0)
    # Not a call of if_then_else, which Relax would bind to a variable of its own.
    return tirx.Select(place < 0, as_expression(from_end), as_expression(extents.least(place, extent)))


def _tile(extents: ShapeValues, inputs: Sequence[Any], held: Held, attributes: Mapping[str, Any]) -> Any | None:
    """Copies along new axes, joined with those that follow them."""
    times, shape = held[1], shape_of(inputs[0])
    if times is None or shape is None:
        return None
    pairs = list(zip(times, shape, strict=True))
    apart = [one for _, extent in pairs for one in (1, extent)]
    copied = [one for pair in pairs for one in pair]
    separate = extents.builder.emit(relax.op.reshape(inputs[0], [as_expression(one) for one in apart]))
    copies = extents.builder.emit(
        relax.op.broadcast_to(separate, relax.ShapeExpr([as_expression(one) for one in copied]))
    )
    return relax.op.reshape(copies, [as_expression(count * extent) for count, extent in pairs])


def _pad(extents: ShapeValues, inputs: Sequence[Any], held: Held, attributes: Mapping[str, Any]) -> Any | None:
    return dynamic_padding.pad(extents.builder, inputs, held[1], attributes) if held[1] is not None else None


def _resize(extents: ShapeValues, inputs: Sequence[Any], held: Held, attributes: Mapping[str, Any]) -> Any | None:
    return convert_resize(extents.builder, inputs, held[3], attributes) if len(held) > 3 else None


resize_to_dimensions = _of_dimensions(_resize)

CONVERTERS: Mapping[str, Converter] = {
    "Reshape": _of_dimensions(_reshape),
    "Expand": _of_dimensions(_expand, includes_data=True),
    "ConstantOfShape": _of_dimensions(_constant_of_shape),
    "Range": _of_dimensions(_range, ShapeValues.whole_numbers),
    "Slice": _of_dimensions(_slice, includes_data=True),
    "Tile": _of_dimensions(_tile),
    "Pad": _of_dimensions(_pad),
}
"""By the operator's name."""
