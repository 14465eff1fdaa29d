"""Exact convolutions and matmuls of 8-bit integers with int32 sums.

Zero points are moved out of the sum: with x' = x − a and w' = w − b, Σ x'w' = Σ xw − a Σ w − b Σ x + K a b. Weights are
usually constants: b is subtracted at compile time, and Σ w is one constant for each channel.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvmake.ir.expressions import constant, fixed_shape, is_call, operator_name
from tvmake.quantize.integers.affine import SMALL, along

from tvm import relax  # isort: skip

LARGEST_SUM = 2**31 - 1

CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d")

PRODUCTS = (*CONVOLUTIONS, "matmul")

OTHER_PRODUCTS = ("nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose", "nn.attention", "einsum")
"""Products without an integer form."""


@dataclass(frozen=True)
class Centred:
    """Small integers and the zero point to subtract."""

    integers: Any
    zero: Any
    """A NumPy array, scalar or along ``axis``; or an expression of an int32 scalar."""
    axis: int = 0

    @property
    def is_centred(self) -> bool:
        """Whether the zero point is 0."""
        return isinstance(self.zero, np.ndarray) and not self.zero.any()

    @property
    def is_single(self) -> bool:
        """Whether the zero point is a scalar."""
        return int(self.zero.size) == 1 if isinstance(self.zero, np.ndarray) else int(self.zero.ty.ndim) == 0


def centred_weight(weight: Centred) -> Centred | None:
    """Subtract the zero point of a constant, in the smallest sufficient dtype; None for other expressions."""
    values = constant(weight.integers)
    if values is None or not isinstance(weight.zero, np.ndarray):
        return None
    if weight.is_centred and str(values.dtype) == "int8":
        return Centred(weight.integers, np.zeros((), np.int32))
    wide = values.astype(np.int32) - along(weight.zero.astype(np.int32), weight.axis, values.ndim)
    fits = wide.size == 0 or (wide.min() >= -128 and wide.max() <= 127)
    dtype = "int8" if fits else "int16"
    return Centred(relax.const(wide.astype(dtype), dtype), np.zeros((), np.int32))


def convolution(builder: Any, call: Any, x: Centred, weight: Centred) -> Any | None:
    """Return the int32 sums of a convolution; None if it has no integer form."""
    known = centred_weight(weight)
    if known is None or not x.is_single:
        return None
    values = constant(known.integers)
    kernel_layout, data_layout = str(call.attrs.kernel_layout), str(call.attrs.data_layout)
    output_axis = kernel_layout.index("O")
    if values is None or values.size == 0 or not _fits(values, output_axis):
        return None
    if int(call.attrs.groups) == 1:
        known = _shift_to_8_bits(known, output_axis)
    data, attributes = x.integers, _attributes(call)
    if not x.is_centred and any(attributes["padding"]):
        data = builder.emit(_pad_with_zero_point(builder, x, data_layout, attributes["padding"]))
        attributes["padding"] = [0] * len(attributes["padding"])
    operator = getattr(relax.op.nn, operator_name(call).rpartition(".")[2])
    sums = operator(data, known.integers, **attributes, out_dtype="int32")
    rank = len(data_layout)
    layout = str(call.attrs.out_layout) or data_layout
    if not known.is_centred:
        zeros = relax.const(along(known.zero, layout.index("C"), rank), "int32")
        windows = _window_sums(builder, operator, data, values.shape, attributes)
        sums = relax.op.subtract(builder.emit(sums), builder.emit(relax.op.multiply(windows, zeros)))
    if x.is_centred:
        return sums
    others = tuple(axis for axis in range(values.ndim) if axis != output_axis)
    totals = values.astype(np.int64).sum(axis=others)
    # Grouped kernels with channels innermost ("HWOI") have O·I outputs.
    if kernel_layout in ("HWOI",) and int(call.attrs.groups) > 1:
        totals = values.astype(np.int64).sum(axis=(0, 1)).reshape(-1)
    totals = relax.const(along(totals.astype(np.int32), layout.index("C"), rank), "int32")
    return relax.op.subtract(builder.emit(sums), _times(builder, totals, x.zero))


def _window_sums(builder: Any, operator: Any, data: Any, shape: tuple[int, ...], attributes: dict[str, Any]) -> Any:
    """Return the int32 sum of each kernel window over all channels; ``shape`` is the shape of the weights."""
    emit, op = builder.emit, relax.op
    wide = emit(op.astype(data, "int32"))
    total = emit(op.sum(wide, axis=attributes["data_layout"].index("C"), keepdims=True))
    kernel = [
        extent if letter in "DHW" else 1 for letter, extent in zip(attributes["kernel_layout"], shape, strict=True)
    ]
    if math.prod(kernel) == 1 and set(attributes["strides"]) == {1} and not any(attributes["padding"]):
        return total
    return emit(operator(total, relax.const(np.ones(kernel, np.int32), "int32"), **attributes, out_dtype="int32"))


def _pad_with_zero_point(builder: Any, x: Centred, layout: str, padding: list[int]) -> Any:
    if isinstance(x.zero, np.ndarray):
        return pad_feature_map(x.integers, layout, padding, int(x.zero))
    emit, op = builder.emit, relax.op
    centred = emit(op.subtract(emit(op.astype(x.integers, "int32")), x.zero))
    return op.astype(emit(op.add(emit(pad_feature_map(centred, layout, padding, 0)), x.zero)), str(x.integers.ty.dtype))


def pad_feature_map(data: Any, layout: str, padding: list[int], value: int) -> Any:
    """Pad the spatial axes of a feature map with ``value``."""
    spatial = [axis for axis, letter in enumerate(layout) if letter in "DHW"]
    before, after = padding[: len(spatial)], padding[len(spatial) :]
    widths = [0] * (2 * len(layout))
    for axis, first, last in zip(spatial, before, after, strict=True):
        widths[2 * axis : 2 * axis + 2] = [first, last]
    return relax.op.nn.pad(data, widths, pad_value=value)


def _attributes(call: Any) -> dict[str, Any]:
    attrs = call.attrs
    return {
        "strides": [int(stride) for stride in attrs.strides],
        "padding": [int(width) for width in attrs.padding],
        "dilation": [int(dilation) for dilation in attrs.dilation],
        "groups": int(attrs.groups),
        "data_layout": str(attrs.data_layout),
        "kernel_layout": str(attrs.kernel_layout),
        "out_layout": str(attrs.out_layout),
    }


def matmul(builder: Any, x: Centred, weight: Centred) -> Any | None:
    """Return the int32 sums of a matmul; None if it has no integer form."""
    if min(x.integers.ty.ndim, weight.integers.ty.ndim) < 2 or not x.is_single:
        return None
    weight = _shift_to_8_bits(centred_weight(weight) or weight, 1)
    shape = fixed_shape(weight.integers)
    if shape is None or not (weight.is_single or constant(weight.integers) is not None):
        return None
    values = constant(weight.integers)
    length = shape[-2]
    if length * 255 * (255 if values is None else int(np.abs(values.astype(np.int32)).max(initial=0))) > LARGEST_SUM:
        return None
    result = relax.op.matmul(x.integers, weight.integers, out_dtype="int32")
    if not x.is_centred:
        if values is not None:
            totals: Any = relax.const(values.astype(np.int32).sum(axis=-2, keepdims=True, dtype=np.int32), "int32")
        else:
            totals = _sum(builder, weight.integers, -2)
        result = relax.op.subtract(builder.emit(result), _times(builder, totals, x.zero))
    if not weight.is_centred:
        rows = _times(builder, _sum(builder, x.integers, -1), weight.zero)
        result = relax.op.subtract(builder.emit(result), rows)
        if not x.is_centred:
            both = _times(builder, _times(builder, relax.const(length, "int32"), x.zero), weight.zero)
            result = relax.op.add(builder.emit(result), both)
    return result


def _shift_to_8_bits(weight: Centred, axis: int) -> Centred:
    """Store 16-bit weights in 8 bits with a zero point for each output channel, if their range allows it."""
    values = constant(weight.integers)
    if values is None or str(values.dtype) != "int16" or (values.ndim == 2) != (axis == 1):
        return weight
    axes = tuple(index for index in range(values.ndim) if index != axis)
    low, high = (extreme(values.astype(np.int32), axis=axes) for extreme in (np.min, np.max))
    if (high - low).max() > 255:
        return weight
    zero = -(low + 128)
    shifted = values.astype(np.int32) + along(zero, axis, values.ndim)
    return Centred(relax.const(shifted.astype(np.int8), "int8"), zero.astype(np.int32), axis)


def _fits(values: np.ndarray, output_axis: int) -> bool:
    others = tuple(axis for axis in range(values.ndim) if axis != output_axis)
    return int(np.abs(values.astype(np.int64)).sum(axis=others).max()) * 255 <= LARGEST_SUM


def _sum(builder: Any, integers: Any, axis: int) -> Any:
    wide = builder.emit(relax.op.astype(integers, "int32"))
    return builder.emit(relax.op.sum(wide, axis=axis, keepdims=True))


def _times(builder: Any, value: Any, factor: Any) -> Any:
    if isinstance(factor, np.ndarray):
        known = constant(value)
        if known is not None:
            return relax.const(np.asarray(known * factor.astype(np.int32), np.int32), "int32")
        factor = relax.const(factor.astype(np.int32), "int32")
    return builder.emit(relax.op.multiply(value, factor))


def centred_integers(lookup: Any, value: Any) -> Centred | None:
    """Parse an operand of ``MatMulInteger``: small integers, widened to int32, less an optional zero point.

    Returns None for other expressions.
    """
    call = lookup(value)
    if is_call(call, "subtract") and str(call.ty.dtype) == "int32":
        inner, zero = lookup(call.args[0]), constant(call.args[1])
        if not (is_call(inner, "astype") and str(inner.args[0].ty.dtype) in SMALL):
            return None
        if zero is not None:
            return Centred(inner.args[0], zero.reshape(())) if zero.size == 1 else None
        return Centred(inner.args[0], call.args[1]) if call.args[1].ty.ndim == 0 else None
    if is_call(call, "astype") and str(call.ty.dtype) == "int32" and str(call.args[0].ty.dtype) in SMALL:
        return Centred(call.args[0], np.zeros((), np.int32))
    known = constant(value)
    if known is not None and str(known.dtype) in ("int32", *SMALL) and known.size:
        low, high = int(known.min()), int(known.max())
        if low >= -128 and high <= 127:
            return Centred(relax.const(known.astype(np.int8), "int8"), np.zeros((), np.int32))
        if low >= -(2**15) and high < 2**15:
            return Centred(relax.const(known.astype(np.int16), "int16"), np.zeros((), np.int32))
    return None
