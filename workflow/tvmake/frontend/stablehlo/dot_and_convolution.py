"""Convert matmuls and convolutions."""

import math
from collections.abc import Sequence
from typing import Any

from jax.extend.mlir.dialects import stablehlo

from tvmake.frontend.stablehlo.conversion import (
    Conversion,
    Converter,
    Unsupported,
    Value,
    extents,
    integers,
    known_sizes,
)
from tvmake.frontend.stablehlo.shapes import pad_value

from tvm import relax  # isort: skip


def _dot_general(conversion: Conversion, op: Any, values: list[Value]) -> Any:
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
    # Without batch axes, rows keep their axes.
    height = rows if rows and not batch else [math.prod(rows)]
    left = conversion.reshape(
        conversion.transpose(values[0], batches[0] + free[0] + summed[0]), [*batch, *height, length]
    )
    right = conversion.reshape(
        conversion.transpose(values[1], batches[1] + summed[1] + free[1]), [*batch, length, math.prod(columns)]
    )
    kinds = (str(conversion.whole(left).ty.dtype), str(op.results[0].type.element_type))
    # None for complex values: their parts keep their dtype.
    wider = {"i32": "int32", "f32": "float32", "f64": "float64"}.get(kinds[1])
    result = conversion.emit(
        relax.op.matmul(conversion.whole(left), conversion.whole(right), wider if wider != kinds[0] else None)
    )
    return conversion.reshape(result, [*batch, *rows, *columns])


_LETTERS = ("W", "HW", "DHW")
_CONVOLUTIONS = (relax.op.nn.conv1d, relax.op.nn.conv2d, relax.op.nn.conv3d)


def _convolution(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    axes = [list(getattr(numbers, f"{kind}_spatial_dimensions")) for kind in ("input", "kernel", "output")]
    count = len(axes[0])
    if not 1 <= count <= 3:
        raise Unsupported(f"over {count} axes")
    pads: Sequence[Any] = integers(op, "padding", [0] * 2 * count)
    if op.operation.name == "stablehlo.dynamic_conv":
        pads = known_sizes(values[2].reshape(-1))
    strides, gaps, dilations = (
        integers(op, name, [1] * count) for name in ("window_strides", "lhs_dilation", "rhs_dilation")
    )
    data, weight = values[:2]
    if any(integers(op, "window_reversal")):
        raise Unsupported("with a reversed kernel window")
    is_natural = all(isinstance(pad, int) and pad >= 0 for pad in pads)
    if not is_natural or any(gap != 1 for gap in gaps):
        low, high, between = ([0] * (count + 2) for _ in range(3))
        for number, axis in enumerate(axes[0]):
            low[axis], high[axis], between[axis] = pads[2 * number], pads[2 * number + 1], gaps[number] - 1
        data, pads = pad_value(conversion, data, low, high, between), [0] * 2 * count
    letters = _LETTERS[count - 1]
    input_layout = _layout(count, {numbers.input_batch_dimension: "N", numbers.input_feature_dimension: "C"}, axes[0])
    kernel = _layout(
        count, {numbers.kernel_output_feature_dimension: "O", numbers.kernel_input_feature_dimension: "I"}, axes[1]
    )
    out = _layout(count, {numbers.output_batch_dimension: "N", numbers.output_feature_dimension: "C"}, axes[2])
    groups = op.feature_group_count.value
    if (parts := op.batch_group_count.value) != 1:  # groups of the batch become groups of the features
        data, groups = (
            _batch_to_features(conversion, data, input_layout.index("N"), input_layout.index("C"), parts),
            parts,
        )
    if (input_layout, kernel, out, groups) == ("NHWC", "HWIO", "NHWC", 1):
        layouts = (input_layout, kernel)
    else:
        layouts = (f"NC{letters}", f"OI{letters}")
        data = conversion.transpose(data, [input_layout.index(letter) for letter in layouts[0]])
        weight = conversion.transpose(weight, [kernel.index(letter) for letter in layouts[1]])
    result = conversion.emit(
        _CONVOLUTIONS[count - 1](
            conversion.whole(data),
            conversion.whole(weight),
            strides,
            [*pads[::2], *pads[1::2]],
            dilations,
            groups,
            *layouts,
        )
    )
    return conversion.transpose(result, [layouts[0].index(letter) for letter in out])


def _batch_to_features(conversion: Conversion, data: Value, batch: int, features: int, parts: int) -> Value:
    """Split the batch into parts and concatenate them along the features."""
    shape = list(extents(data))
    split = [*shape[:batch], parts, shape[batch] // parts, *shape[batch + 1 :]]
    data = conversion.reshape(data, split)
    features += features > batch
    order = [a for a in range(len(split)) if a != batch]
    order.insert(order.index(features), batch)
    shape[batch] //= parts
    shape[features - (features > batch)] *= parts
    return conversion.reshape(conversion.transpose(data, order), shape)


def _layout(count: int, letters: dict[int, str], spatial_axes: list[int]) -> str:
    axis_letters = letters | dict(zip(spatial_axes, _LETTERS[count - 1], strict=True))
    return "".join(axis_letters[axis] for axis in range(count + 2))


CONVERTERS: dict[str, Converter] = {
    "stablehlo.convolution": _convolution,
    "stablehlo.dynamic_conv": _convolution,
    "stablehlo.dot_general": _dot_general,
}
