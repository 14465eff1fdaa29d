"""Operators of ONNX that take a shape, or positions, which networks compute from their dynamic dimensions."""

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
    Extents,
    Held,
    as_array,
    as_expression,
    element_type,
    is_symbolic,
    shape_of,
    slice_values,
)

from tvm import relax, tirx  # isort: skip


BEYOND = 1 << 28
"""An end of a slice from here on is that of the dimension: exporters write 10^9 as well, for which memory would be planned."""


def converted(extents: Extents, operator: str, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any | None:
    """What an operator makes of values that hold extents; None where it has to be computed as any other."""
    held = [extents.whole_numbers(value) if operator == "Range" else extents.of(value) for value in inputs]
    is_dynamic = operator in ("Slice", "Expand") and is_symbolic(as_array(shape_of(inputs[0]) or []))
    if not is_dynamic and not any(values is not None and is_symbolic(values) for values in held):
        return None
    if operator in SHAPED:
        return SHAPED[operator](extents, inputs, held, attributes)
    if operator not in EVALUATED or any(
        values is None and value is not None for values, value in zip(held, inputs, strict=True)
    ):
        return None
    result = EVALUATED[operator](extents, held, attributes)
    if result is None:
        return None
    is_truth = operator in COMPARISONS
    return extents.tensor(result, "bool" if is_truth else element_type(operator, inputs, attributes))


def _to_shape(extents: Extents, inputs: Sequence[Any], held: Held, attributes: Mapping[str, Any]) -> Any | None:
    data, target = inputs[0], held[1]
    if held[0] is not None and (result := EVALUATED["Reshape"](extents, held, attributes)) is not None:
        return extents.tensor(result)
    if target is None or not isinstance(data.ty, relax.TensorType):
        return None
    if attributes.get("allowzero") and any(isinstance(one, int) and one == 0 for one in target):
        return None  # 0 copies an extent for Relax
    return relax.op.reshape(data, [as_expression(one) for one in target])


def _expanded(extents: Extents, inputs: Sequence[Any], held: Held, attributes: Mapping[str, Any]) -> Any | None:
    """Extents broadcast both ways; the package checks that a dynamic one is what it is broadcast to."""
    target, shape = held[1], shape_of(inputs[0])
    if target is None or shape is None:
        return None
    rank = max(len(shape), len(target))
    sizes, wanted = ([1] * (rank - len(part)) + list(part) for part in (shape, target))
    result = [b if isinstance(a, int) and a == 1 else a if isinstance(a, int) else b if b != 1 else a
              for a, b in zip(sizes, wanted, strict=True)]  # fmt: skip
    return relax.op.broadcast_to(inputs[0], relax.ShapeExpr([as_expression(one) for one in result]))


def _filled(extents: Extents, inputs: Sequence[Any], held: Held, attributes: Mapping[str, Any]) -> Any | None:
    value = attributes.get("value")
    number = numpy_helper.to_array(value).reshape(()) if value is not None else np.float32(0)
    shape = relax.ShapeExpr([as_expression(one) for one in held[0]])  # type: ignore[union-attr]
    return relax.op.broadcast_to(relax.const(number, str(number.dtype)), shape)


def _counted(extents: Extents, inputs: Sequence[Any], held: Held, attributes: Mapping[str, Any]) -> Any | None:
    if any(part is None for part in held):
        return None
    dtype = element_type("Range", inputs, attributes)
    places = relax.op.arange(*(as_expression(part.reshape(-1)[0]) for part in held), dtype="int64")  # type: ignore[union-attr]
    return places if dtype == "int64" else relax.op.astype(extents.builder.emit(places), dtype)


def _cut(extents: Extents, inputs: Sequence[Any], held: Held, attributes: Mapping[str, Any]) -> Any | None:
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
            pair = [_placed(extents, one, shape[axis]) for one in (start, end)]
            forwards.append((axis, pair[0], extents.greatest(*pair), stride))
            continue
        first, last = (_placed_backwards(extents, one, shape[axis]) for one in (start, end))
        count = extents.greatest((first - last - stride - 1) // -stride, 0)
        positions = relax.op.arange(*map(as_expression, (first, first + count * stride, stride)), dtype="int64")
        data = extents.builder.emit(relax.op.take(data, extents.builder.emit(positions), axis))
    if not forwards:
        return data
    kept, begins, stops, jumps = zip(*forwards, strict=True)
    bounds = (list(map(as_expression, each)) for each in (begins, stops, jumps))
    return relax.op.strided_slice(data, list(kept), *bounds, assume_inbound=True)


def _placed_backwards(extents: Extents, place: Any, extent: Any) -> Any:
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


def _placed(extents: Extents, place: Any, extent: Any) -> Any:
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


def _repeated(extents: Extents, inputs: Sequence[Any], held: Held, attributes: Mapping[str, Any]) -> Any | None:
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


def _padded(extents: Extents, inputs: Sequence[Any], held: Held, attributes: Mapping[str, Any]) -> Any | None:
    return dynamic_padding.pad(extents.builder, inputs, held[1], attributes) if held[1] is not None else None


def _resized(extents: Extents, inputs: Sequence[Any], held: Held, attributes: Mapping[str, Any]) -> Any | None:
    return convert_resize(extents.builder, inputs, held[3], attributes) if len(held) > 3 else None


SHAPED: Mapping[str, Callable[[Extents, Sequence[Any], Held, Mapping[str, Any]], Any | None]] = {
    "Reshape": _to_shape,
    "Expand": _expanded,
    "ConstantOfShape": _filled,
    "Range": _counted,
    "Slice": _cut,
    "Tile": _repeated,
    "Pad": _padded,
    "Resize": _resized,
}
"""Operators that take a shape, or places."""
