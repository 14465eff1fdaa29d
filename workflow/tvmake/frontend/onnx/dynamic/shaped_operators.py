"""Convert operators whose shape or index operands the network computes from dynamic dimensions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from onnx import numpy_helper

from tvmake.frontend.onnx.dynamic import padding
from tvmake.frontend.onnx.dynamic.shape_arithmetic import (
    COMPARISONS,
    EVALUATED,
    OperandValues,
    element_type,
    reshape_values,
    slice_values,
)
from tvmake.frontend.onnx.dynamic.shape_values import (
    ShapeValues,
    Values,
    as_array,
    as_expression,
    is_symbolic,
    shape_of,
)

from tvm import relax, tirx  # isort: skip


OPEN_END = 1 << 28
"""A slice with a larger end ends with the dimension: exporters write 10^9, for instance, and TVM would plan memory for it."""


Converter = Callable[[ShapeValues, Sequence[Any], Mapping[str, Any]], Any | None]
"""Returns an operator's value from its operands and attributes; None leaves the node to TVM's importer."""


def evaluate(extents: ShapeValues, operator: str, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any | None:
    """The value of an operator on known integers that include dimensions; None if it has other operands."""
    if operator not in EVALUATED:
        return None
    known = [extents.of(value) for value in inputs]
    if not _has_dimensions(known) or any(
        values is None and value is not None for values, value in zip(known, inputs, strict=True)
    ):
        return None
    result = EVALUATED[operator](extents, known, attributes)
    if result is None:
        return None
    if not isinstance(result, np.ndarray):
        result = as_array(result)  # numpy's arithmetic on a scalar array returns its element
    return extents.tensor(result, "bool" if operator in COMPARISONS else element_type(operator, inputs, attributes))


def _has_dimensions(known: OperandValues) -> bool:
    return any(values is not None and is_symbolic(values) for values in known)


def _of_dimensions(
    convert: Callable[[ShapeValues, Sequence[Any], OperandValues, Mapping[str, Any]], Any | None],
    look_up: Callable[[ShapeValues, Any], Values | None] = ShapeValues.of,
    includes_data: bool = False,
    reads: Sequence[int] = (),
) -> Converter:
    """A converter for operands whose values include dynamic dimensions.

    Args:
        convert: the converter; it also takes the operands' known values.
        look_up: returns the known values of an operand.
        includes_data: whether it also converts data with dynamic dimensions.
        reads: indices of the operands whose values are read when the network runs, if they depend on the data.
    """

    def converter(extents: ShapeValues, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any | None:
        known = [look_up(extents, value) for value in inputs]
        for index in reads:
            if index < len(inputs) and known[index] is None:
                known[index] = extents.read(inputs[index])
        is_dynamic = includes_data and is_symbolic(as_array(shape_of(inputs[0]) or []))
        return convert(extents, inputs, known, attributes) if is_dynamic or _has_dimensions(known) else None

    return converter


def _reshape(
    extents: ShapeValues, inputs: Sequence[Any], known: OperandValues, attributes: Mapping[str, Any]
) -> Any | None:
    data, target = inputs[0], known[1]
    if known[0] is not None and (result := reshape_values(extents, known, attributes)) is not None:
        return extents.tensor(result)
    if target is None or not isinstance(data.ty, relax.TensorType):
        return None
    if attributes.get("allowzero") and any(isinstance(extent, int) and extent == 0 for extent in target):
        return None  # Relax copies a dimension for 0
    sizes = _settled_target(extents, data, target, bool(attributes.get("allowzero")))
    return None if sizes is None else relax.op.reshape(data, [as_expression(extent) for extent in sizes])


def _settled_target(extents: ShapeValues, data: Any, target: Values, allows_zero: bool) -> list[Any] | None:
    """The dimensions of a reshape; of sizes that depend on the data, 0 and -1 are recognised when the network runs."""
    if not any(map(extents.depends_on_data, target)):
        return list(target)
    shape = shape_of(data)
    if shape is None:
        return None
    sizes = []
    for axis, extent in enumerate(target):
        kept = shape[axis] if axis < len(shape) and not allows_zero else extent
        sizes.append(_choose(extents, extent, 0, kept, extent))
    total, others = tirx.IntImm("int64", 1), tirx.IntImm("int64", 1)
    for extent in shape:
        total = total * extent
    for extent in sizes:
        others = others * _choose(extents, extent, -1, 1, extent)
    rest = tirx.floordiv(total, tirx.max(others, as_expression(1)))
    return [extents.size(_choose(extents, extent, -1, rest, extent)) for extent in sizes]


def _choose(extents: ShapeValues, value: Any, compared: int, equal: Any, unequal: Any) -> Any:
    """One of two sizes, depending on whether a value equals a number."""
    low, high = extents.difference(value, compared)
    if low == high == 0:
        return equal
    if low > 0 or high < 0:
        return unequal
    return tirx.Select(as_expression(value).equal(as_expression(compared)), *map(as_expression, (equal, unequal)))


def _split(
    extents: ShapeValues, inputs: Sequence[Any], known: OperandValues, attributes: Mapping[str, Any]
) -> Any | None:
    """Slices one after the other; the package checks that they cover the axis."""
    shape, sizes = shape_of(inputs[0]), known[1] if len(known) > 1 else None
    if shape is None or sizes is None:
        return None
    axis = attributes.get("axis", 0) % len(shape)
    parts, begin = [], as_expression(0)
    for size in map(extents.size, sizes):
        part = relax.op.strided_slice(inputs[0], [axis], [begin], [begin + size], assume_inbound=True)
        parts.append(extents.with_sizes(part))
        begin = begin + size
    extents.require(begin, shape[axis])
    return relax.Tuple(parts) if len(parts) > 1 else parts[0]


def _top_k(
    extents: ShapeValues, inputs: Sequence[Any], known: OperandValues, attributes: Mapping[str, Any]
) -> Any | None:
    """The first elements of the sorted axis, for a number that is known only at run time."""
    shape, count, emit = shape_of(inputs[0]), known[1], extents.builder.emit
    if shape is None or count is None or not is_symbolic(count):
        return None
    axis = attributes.get("axis", -1) % len(shape)
    size = extents.size(count.reshape(-1)[0])
    extents.require(size, extents.least(size, shape[axis]))
    order = emit(relax.op.argsort(inputs[0], axis, bool(attributes.get("largest", 1)), dtype="int64"))
    indices = emit(relax.op.strided_slice(order, [axis], [0], [as_expression(size)], assume_inbound=True))
    return relax.Tuple([emit(relax.op.gather_elements(inputs[0], indices, axis)), indices])


def _expand(
    extents: ShapeValues, inputs: Sequence[Any], known: OperandValues, attributes: Mapping[str, Any]
) -> Any | None:
    """Broadcast both shapes; the package checks that a dynamic dimension equals its target."""
    target, shape = known[1], shape_of(inputs[0])
    if target is None or shape is None:
        return None
    rank = max(len(shape), len(target))
    sizes, wanted = ([1] * (rank - len(part)) + list(part) for part in (shape, target))
    for size, target_size in zip(sizes, wanted, strict=True):
        if isinstance(size, int) and size != 1 and extents.depends_on_data(target_size):
            extents.require(_choose(extents, target_size, 1, size, target_size), size)
    result = [b if isinstance(a, int) and a == 1 else a if isinstance(a, int) else b if b != 1 else a
              for a, b in zip(sizes, wanted, strict=True)]  # fmt: skip
    return relax.op.broadcast_to(inputs[0], relax.ShapeExpr(list(map(as_expression, extents.target(result)))))


def _constant_of_shape(
    extents: ShapeValues, inputs: Sequence[Any], known: OperandValues, attributes: Mapping[str, Any]
) -> Any | None:
    value = attributes.get("value")
    number = numpy_helper.to_array(value).reshape(()) if value is not None else np.float32(0)
    shape = relax.ShapeExpr(list(map(as_expression, extents.target(list(known[0])))))  # type: ignore[arg-type]
    return relax.op.broadcast_to(relax.const(number, str(number.dtype)), shape)


def _range(
    extents: ShapeValues, inputs: Sequence[Any], known: OperandValues, attributes: Mapping[str, Any]
) -> Any | None:
    if any(part is None for part in known):
        return None
    dtype = element_type("Range", inputs, attributes)
    result = relax.op.arange(*(as_expression(part.reshape(-1)[0]) for part in known), dtype="int64")  # type: ignore[union-attr]
    return result if dtype == "int64" else relax.op.astype(extents.builder.emit(result), dtype)


def _slice(
    extents: ShapeValues, inputs: Sequence[Any], known: OperandValues, attributes: Mapping[str, Any]
) -> Any | None:
    """Slice with bounds that are counted from the front and clamped to the dimension."""
    if known[0] is not None:
        result = None if any(part is None and value is not None for part, value in zip(known, inputs, strict=True)) else (
            slice_values(extents, known, attributes)
        )  # fmt: skip
        if result is not None:
            return extents.tensor(result, element_type("Slice", inputs, attributes))
    shape = shape_of(inputs[0])
    starts, ends, axes, steps = (known[index] if index < len(known) else None for index in range(1, 5))
    if shape is None or starts is None or ends is None or (steps is not None and is_symbolic(steps)):
        return None
    if any(value is not None and part is None for value, part in zip(inputs[3:], known[3:], strict=True)):
        return None
    numbers = [int(axis) % len(shape) for axis in axes] if axes is not None else list(range(len(starts)))
    strides = [1] * len(numbers) if steps is None else [int(step) for step in steps]
    if not any(isinstance(value, tvm.ir.Expr) for value in [*starts, *ends, *(shape[axis] for axis in numbers)]):
        return None
    data, forwards = inputs[0], []
    for axis, start, end, stride in zip(numbers, starts, ends, strides, strict=True):
        if stride > 0:
            first, last = (_index_from_front(extents, index, shape[axis]) for index in (start, end))
            forwards.append((axis, *_from_data(extents, first, last, stride), stride))
            continue
        first, last = (_index_from_back(extents, index, shape[axis]) for index in (start, end))
        first, count = extents.size(first), extents.size(extents.greatest((first - last - stride - 1) // -stride, 0))
        # From 0 on: the length of an arange with a negative step is an expression that TVM does not simplify.
        steps_back = extents.builder.emit(relax.op.arange(as_expression(count), dtype="int64"))
        distances = relax.op.multiply(steps_back, relax.const(stride, "int64"))
        positions = relax.op.add(distances, extents.tensor(as_array(first)))
        data = extents.builder.emit(relax.op.take(data, extents.builder.emit(positions), axis))
    if not forwards:
        return data
    sliced_axes, begins, stops, jumps = zip(*forwards, strict=True)
    bounds = (list(map(as_expression, values)) for values in (begins, stops, jumps))
    return relax.op.strided_slice(data, list(sliced_axes), *bounds, assume_inbound=True)


def _from_data(extents: ShapeValues, first: Any, last: Any, stride: int) -> tuple[Any, Any]:
    """The bounds of a slice with a positive stride; if they depend on the data, the length becomes a dimension."""
    begin, end = extents.size(first), extents.greatest(first, last)
    if not extents.depends_on_data(end):
        return begin, end
    count = extents.size((extents.greatest(last - first, 0) + stride - 1) // stride)
    return begin, begin + count * stride


def _index_from_back(extents: ShapeValues, index: Any, extent: Any) -> Any:
    """A bound of a slice with a negative stride, counted from the front, from -1 to the last index."""
    low, high = extents.bounds(index)
    from_end = extents.greatest(extent + index, -1)
    within = extents.least(index, extent - 1)
    return (
        from_end
        if high < 0
        else within
        if low >= 0
        else tirx.Select(index < 0, *map(as_expression, (from_end, within)))
    )


def _index_from_front(extents: ShapeValues, index: Any, extent: Any) -> Any:
    """A bound of a slice with a positive stride, counted from the front, at most the length."""
    if not isinstance(index, tvm.ir.Expr) and index >= OPEN_END:
        return extent
    low, high = extents.bounds(index)
    if high < 0:
        return extents.greatest(extent + index, 0)
    if low >= 0:
        return extents.least(index, extent)
    before = extents.difference(index, extent)
    if before[0] == before[1] and before[0] in (-1, -2):
        return extents.greatest(index, 0)  # n - 2 is -1 for n = 1: index 0 from either end
    from_end = extents.greatest(extent + index, 0)
    if high <= 0 and extents.bounds(from_end) == (0, 0):
        return 0  # the last n of n elements
    # Not if_then_else: Relax would bind its call to a variable.
    return tirx.Select(index < 0, as_expression(from_end), as_expression(extents.least(index, extent)))


def _tile(
    extents: ShapeValues, inputs: Sequence[Any], known: OperandValues, attributes: Mapping[str, Any]
) -> Any | None:
    """Broadcast along new axes, and merge each with the axis that follows it."""
    times, shape = known[1], shape_of(inputs[0])
    if times is None or shape is None:
        return None
    pairs = list(zip(times, shape, strict=True))
    separate = [size for _, extent in pairs for size in (1, extent)]
    wide = [size for pair in pairs for size in pair]
    data = extents.builder.emit(relax.op.reshape(inputs[0], [as_expression(size) for size in separate]))
    copies = extents.builder.emit(relax.op.broadcast_to(data, relax.ShapeExpr([as_expression(size) for size in wide])))
    return relax.op.reshape(copies, [as_expression(count * extent) for count, extent in pairs])


def _squeeze(
    extents: ShapeValues, inputs: Sequence[Any], known: OperandValues, attributes: Mapping[str, Any]
) -> Any | None:
    """Remove axes; the package checks that dynamic ones have one element."""
    shape = shape_of(inputs[0])
    axes = attributes.get("axes") if len(known) < 2 else known[1]
    if shape is None or axes is None:
        return None
    numbers = {int(axis) % len(shape) for axis in axes}
    dynamic = [axis for axis in sorted(numbers) if isinstance(shape[axis], tvm.ir.Expr)]
    if not dynamic:
        return None
    for axis in dynamic:
        extents.require(shape[axis], 1)
    rest = [as_expression(extent) for axis, extent in enumerate(shape) if axis not in numbers]
    first = relax.op.strided_slice(
        inputs[0], dynamic, *([value] * len(dynamic) for value in (0, 1)), assume_inbound=True
    )
    return relax.op.reshape(extents.builder.emit(first), relax.ShapeExpr(rest))


def _pad(
    extents: ShapeValues, inputs: Sequence[Any], known: OperandValues, attributes: Mapping[str, Any]
) -> Any | None:
    padded = padding.pad(extents.builder, inputs, known[1], attributes) if known[1] is not None else None
    return None if padded is None else extents.with_sizes(padded)


CONVERTERS: Mapping[str, Converter] = {
    "Reshape": _of_dimensions(_reshape, reads=[1]),
    "Expand": _of_dimensions(_expand, includes_data=True, reads=[1]),
    "ConstantOfShape": _of_dimensions(_constant_of_shape, reads=[0]),
    "Range": _of_dimensions(_range, ShapeValues.whole_numbers),
    "Slice": _of_dimensions(_slice, includes_data=True, reads=[1, 2]),
    "Squeeze": _of_dimensions(_squeeze, includes_data=True),
    "Split": _of_dimensions(_split, reads=[1]),
    "TopK": _of_dimensions(_top_k, reads=[1]),
    "Tile": _of_dimensions(_tile),
    "Pad": _of_dimensions(_pad, reads=[1]),
}
"""Converters by the operator's name."""
