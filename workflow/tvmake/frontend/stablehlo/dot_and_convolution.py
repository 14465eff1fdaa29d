"""Matmuls and convolutions."""

import math
from typing import Any

from jax.extend.mlir.dialects import stablehlo

from tvmake.frontend.stablehlo.conversion import Conversion, Converter, Unsupported, Value, extents, integers
from tvmake.frontend.stablehlo.shapes import padded

from tvm import relax  # isort: skip


def _dot_general(at: Conversion, op: Any, values: list[Value]) -> Any:
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    batches = (list(numbers.lhs_batching_dimensions), list(numbers.rhs_batching_dimensions))
    summed = (list(numbers.lhs_contracting_dimensions), list(numbers.rhs_contracting_dimensions))
    shapes = [extents(value) for value in values]
    free = [
        [a for a in range(len(shape)) if a not in batch and a not in contracted]
        for shape, batch, contracted in zip(shapes, batches, summed, strict=True)
    ]
    length = math.prod(shapes[0][a] for a in summed[0])
    batch = [shapes[0][a] for a in batches[0]]
    rows, columns = ([shape[a] for a in axes] for shape, axes in zip(shapes, free, strict=True))
    # Rows keep their axes where nothing has to be aligned with them.
    height = rows if rows and not batch else [math.prod(rows)]
    left = at.reshaped(at.permuted(values[0], batches[0] + free[0] + summed[0]), [*batch, *height, length])
    right = at.reshaped(at.permuted(values[1], batches[1] + summed[1] + free[1]), [*batch, length, math.prod(columns)])
    kinds = (str(at.whole(left).ty.dtype), str(op.results[0].type.element_type))
    # None for complex numbers, whose parts keep their type.
    wider = {"i32": "int32", "f32": "float32", "f64": "float64"}.get(kinds[1])
    found = at.emit(relax.op.matmul(at.whole(left), at.whole(right), wider if wider != kinds[0] else None))
    return at.reshaped(found, [*batch, *rows, *columns])


_LETTERS = ("W", "HW", "DHW")
_CONVOLUTIONS = (relax.op.nn.conv1d, relax.op.nn.conv2d, relax.op.nn.conv3d)


def _convolution(at: Conversion, op: Any, values: list[Value]) -> Any:
    numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    places = [list(getattr(numbers, f"{kind}_spatial_dimensions")) for kind in ("input", "kernel", "output")]
    count = len(places[0])
    if not 1 <= count <= 3:
        raise Unsupported(f"over {count} axes")
    pads = integers(op, "padding", [0] * 2 * count)
    strides, gaps, dilations = (
        integers(op, name, [1] * count) for name in ("window_strides", "lhs_dilation", "rhs_dilation")
    )
    data, weight = values
    if any(integers(op, "window_reversal")):
        raise Unsupported("with a reversed window")
    if min(pads) < 0 or any(gap != 1 for gap in gaps):
        low, high, between = ([0] * (count + 2) for _ in range(3))
        for number, axis in enumerate(places[0]):
            low[axis], high[axis], between[axis] = pads[2 * number], pads[2 * number + 1], gaps[number] - 1
        data, pads = padded(at, data, low, high, between), [0] * 2 * count
    letters = _LETTERS[count - 1]
    found_in = _layout(count, {numbers.input_batch_dimension: "N", numbers.input_feature_dimension: "C"}, places[0])
    kernel = _layout(
        count, {numbers.kernel_output_feature_dimension: "O", numbers.kernel_input_feature_dimension: "I"}, places[1]
    )
    out = _layout(count, {numbers.output_batch_dimension: "N", numbers.output_feature_dimension: "C"}, places[2])
    groups = op.feature_group_count.value
    if (parts := op.batch_group_count.value) != 1:  # each makes a part of the features of all that is left of the batch
        data, groups = _by_features(at, data, found_in.index("N"), found_in.index("C"), parts), parts
    if (found_in, kernel, out, groups) == ("NHWC", "HWIO", "NHWC", 1):
        layouts = (found_in, kernel)
    else:
        layouts = (f"NC{letters}", f"OI{letters}")
        data = at.permuted(data, [found_in.index(letter) for letter in layouts[0]])
        weight = at.permuted(weight, [kernel.index(letter) for letter in layouts[1]])
    found = at.emit(
        _CONVOLUTIONS[count - 1](
            at.whole(data), at.whole(weight), strides, [*pads[::2], *pads[1::2]], dilations, groups, *layouts
        )
    )
    return at.permuted(found, [layouts[0].index(letter) for letter in out])


def _by_features(at: Conversion, data: Value, batch: int, features: int, parts: int) -> Value:
    """Data whose batch's parts lie side by side along the features."""
    shape = list(extents(data))
    split = [*shape[:batch], parts, shape[batch] // parts, *shape[batch + 1 :]]
    data = at.reshaped(data, split)
    features += features > batch
    order = [a for a in range(len(split)) if a != batch]
    order.insert(order.index(features), batch)
    shape[batch] //= parts
    shape[features - (features > batch)] *= parts
    return at.reshaped(at.permuted(data, order), shape)


def _layout(count: int, letters: dict[int, str], places: list[int]) -> str:
    named = letters | dict(zip(places, _LETTERS[count - 1], strict=True))
    return "".join(named[axis] for axis in range(count + 2))


CONVERTERS: dict[str, Converter] = {
    "stablehlo.convolution": _convolution,
    "stablehlo.dot_general": _dot_general,
}
