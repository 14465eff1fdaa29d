"""Write out quantised operators in exact integer arithmetic: int32 matmuls, one rescaling, round half to even, saturate."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tvmake.frontend.onnx.graph import Builder, attributes, optional_input

HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
"""Element types of scales that are converted to float32 for arithmetic."""


def _centred(build: Builder, name: str, zero_point: str, axis: int | None = None) -> str:
    """Values minus their zero point, as int32; the zero point is per tensor or along ``axis``."""
    value = build.cast(name, TensorProto.INT32)
    if not zero_point:
        return value
    return build.op("Sub", value, _along(build, build.cast(zero_point, TensorProto.INT32), zero_point, name, axis))


def _along(build: Builder, value: str, source: str, like: str, axis: int | None) -> str:
    """A per-channel argument in the shape that broadcasts along ``axis`` of ``like``."""
    shape = build.graph.shape(source)
    if axis is None or shape is None or len(shape) != 1:
        return build.reshape(value, []) if shape == (1,) else value
    rank = build.graph.rank(like) or 1
    return build.reshape(value, [-1, *[1] * (rank - 1 - axis % rank)])


def _requantise(build: Builder, total: str, factor: str, zero_point: str, dtype: int) -> str:
    """round(total · factor) + zero_point, saturated to ``dtype``."""
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    limits = np.iinfo(kind)
    scaled = build.op("Round", build.op("Mul", build.cast(total, TensorProto.FLOAT), factor))
    # Clip before the integer cast, which is undefined for floats out of range.
    bounded = build.op("Clip", scaled, build.const(-(2.0**30), np.float32), build.const(2.0**30, np.float32))
    shifted = build.op("Add", build.cast(bounded, TensorProto.INT32), build.cast(zero_point, TensorProto.INT32))
    low, high = build.const(limits.min, np.int32), build.const(limits.max, np.int32)
    return build.cast(build.op("Min", build.op("Max", shifted, low), high), dtype)


def matmul_integer(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """A's zero point is per row, B's is per column."""
    a, b = _operands(build, node.input[0], optional_input(node, 2), node.input[1], optional_input(node, 3))
    return [build.op("MatMul", a, b)]


def _operands(build: Builder, a: str, a_zero: str, b: str, b_zero: str) -> tuple[str, str]:
    return _centred(build, a, a_zero, -2), _centred(build, b, b_zero, -1)


def qlinear_matmul(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.input
    dtype = build.graph.dtype(y_zero)
    if dtype not in (TensorProto.INT8, TensorProto.UINT8):
        return None
    if are_constants(build, a_scale, a_zero, b_scale, b_zero, y_scale, y_zero) and _sizes(build, a_scale, y_scale) == {
        1
    }:
        result = build.op(
            "MatMul", dequantize_operand(build, a, a_scale, a_zero), dequantize_operand(build, b, b_scale, b_zero, -1)
        )
        return [quantize_result(build, result, y_scale, y_zero)]
    left, right = _operands(build, a, a_zero, b, b_zero)
    total = build.op("MatMul", left, right)
    scales = [build.cast(name, TensorProto.FLOAT) for name in (a_scale, b_scale, y_scale)]
    first = _along(build, scales[0], a_scale, a, -2)
    second = _along(build, scales[1], b_scale, b, -1)
    factor = build.op("Div", build.op("Mul", first, second), _along(build, scales[2], y_scale, a, -2))
    return [_requantise(build, total, factor, _scalar(build, y_zero), dtype)]


def are_constants(build: Builder, *names: str) -> bool:
    return all(build.graph.is_constant(name) for name in names if name)


def _sizes(build: Builder, *names: str) -> set[int]:
    return {int(np.prod(build.graph.static_shape(name) or ())) for name in names}


def dequantize_operand(build: Builder, name: str, scale: str, zero: str, axis: int = 0) -> str:
    """Dequantise integers, with one scale or with one for each index along ``axis``.

    The rewrites of the imported network (``tvmake.quantize``) turn operators between this and ``quantize_result`` into integer
    arithmetic.
    """
    rank = build.graph.rank(name) or 1
    if _sizes(build, scale) == {1}:
        parameters = [_scalar(build, parameter) for parameter in (scale, zero) if parameter]
        return build.op("DequantizeLinear", name, *parameters)
    return build.op("DequantizeLinear", name, *filter(None, (scale, zero)), axis=axis % rank)


def dequantize_blocks(
    build: Builder, name: str, integers: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None, axis: int, size: int
) -> str:
    """Dequantise constant integers with one scale for every ``size`` elements along ``axis``.

    Blocks become the rows of a matrix with one scale each, so that ``tvmake.quantize`` can keep the integers.
    """
    last = np.moveaxis(integers, axis, -1)
    count = -(-last.shape[-1] // size)
    lowest = min(int(part.astype(np.int16).min(initial=0)) for part in (integers, zeros) if part is not None)
    dtype = np.int8 if lowest < 0 else np.uint8
    padded = np.zeros((*last.shape[:-1], count * size), dtype)
    padded[..., : last.shape[-1]] = last
    parameters = [build.graph.add_constant(padded.reshape(-1, size), name)]
    parameters.append(build.const(np.moveaxis(scales, axis, -1).reshape(-1), np.float32))
    if zeros is not None:
        parameters.append(build.const(np.moveaxis(zeros, axis, -1).reshape(-1), dtype))
    values = build.reshape(build.op("DequantizeLinear", *parameters, axis=0), padded.shape)
    if count * size != last.shape[-1]:
        values = build.slice(values, last.ndim - 1, 0, last.shape[-1])
    if axis == last.ndim - 1:
        return values
    return build.transpose(values, [*range(axis), last.ndim - 1, *range(axis, last.ndim - 1)])


def quantize_result(build: Builder, name: str, scale: str, zero: str) -> str:
    return build.op("QuantizeLinear", name, *(_scalar(build, parameter) for parameter in (scale, zero) if parameter))


def dequantize_bias(build: Builder, bias: str, x_scale: str, w_scale: str) -> str:
    """Dequantise a bias with the product of the operands' scales."""
    scales = [build.graph.constant(name) for name in (x_scale, w_scale)]
    assert all(scale is not None for scale in scales)
    scale = np.asarray(scales[0], np.float32).reshape(()) * np.asarray(scales[1], np.float32)
    wide = np.broadcast_to(scale.reshape(-1), (int(np.prod(build.graph.static_shape(bias) or (1,))),))
    return build.op("DequantizeLinear", bias, build.const(wide, np.float32), axis=0)


def _scalar(build: Builder, name: str) -> str:
    return build.reshape(name, []) if build.graph.shape(name) == (1,) else name


def conv_integer(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    x, weight = (
        _centred(build, node.input[0], optional_input(node, 2)),
        _centred(build, node.input[1], optional_input(node, 3), 0),
    )
    return [_int_conv(node, build, x, weight)]


def _int_conv(node: onnx.NodeProto, build: Builder, x: str, weight: str, bias: str = "") -> str:
    """A convolution in int32; padding is 0 after subtraction of the zero point, as ONNX defines it."""
    return build.op("Conv", x, weight, *([bias] if bias else []), **attributes(node))


def qlinear_conv(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    x, x_scale, x_zero, weight, w_scale, w_zero, y_scale, y_zero = node.input[:8]
    dtype = build.graph.dtype(y_zero)
    if dtype not in (TensorProto.INT8, TensorProto.UINT8):
        return None
    rank = build.graph.rank(weight)
    if rank is None:
        return None
    bias = optional_input(node, 8)
    parameters = (x_scale, x_zero, w_scale, w_zero, y_scale, y_zero, bias)
    if (
        are_constants(build, *parameters)
        and w_scale in build.graph.constants
        and _sizes(build, x_scale, y_scale) == {1}
    ):
        operands = [dequantize_operand(build, x, x_scale, x_zero), dequantize_operand(build, weight, w_scale, w_zero)]
        operands += [dequantize_bias(build, bias, x_scale, w_scale)] if bias else []
        return [quantize_result(build, build.op("Conv", *operands, **attributes(node)), y_scale, y_zero)]
    total = _int_conv(node, build, _centred(build, x, x_zero), _centred(build, weight, w_zero, 0), bias)
    per_channel = build.graph.shape(w_scale) not in ((), (1,))
    w_factor = build.reshape(w_scale, [1, -1, *[1] * (rank - 2)]) if per_channel else _scalar(build, w_scale)
    factor = build.op("Div", build.op("Mul", _scalar(build, x_scale), w_factor), _scalar(build, y_scale))
    return [_requantise(build, total, factor, _scalar(build, y_zero), dtype)]


def dequantize(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Write out blocked scales, which TVM does not support; compute half-precision scales in float32 and round once."""
    graph, values = build.graph, attributes(node)
    x, scale, zero = node.input[0], node.input[1], optional_input(node, 2)
    dtype = values.get("output_dtype") or graph.dtype(scale)
    if not values.get("block_size", 0):
        if dtype not in HALVES and graph.dtype(scale) not in HALVES:
            return None
        along = {"axis": values["axis"]} if "axis" in values else {}
        parameters = [build.cast(scale, TensorProto.FLOAT), *([zero] if zero else [])]
        return [build.cast(build.op("DequantizeLinear", x, *parameters, **along), dtype)]
    weights, scales, zeros = (graph.weights(name) if name else None for name in (x, scale, zero))
    has_zeros = zero == "" or zeros is not None
    if weights is not None and weights.dtype in (np.int8, np.uint8) and scales is not None and has_zeros:
        axis = values.get("axis", 1) % weights.ndim
        value = dequantize_blocks(build, x, weights, scales, zeros, axis, values["block_size"])
        return [build.cast(value, dtype)]
    wide = [broadcast_parameter(build, name, x, values) for name in (scale, zero) if name]
    if not all(wide):
        return None
    value = build.cast(x, dtype)
    if zero:
        value = build.op("Sub", value, build.cast(wide[1], dtype))
    return [build.op("Mul", value, build.cast(wide[0], dtype))]


def quantize(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Write out blocked scales: divide, round half to even, add the zero point, saturate. Halves are divided as float32."""
    graph, values = build.graph, attributes(node)
    x, scale, zero = node.input[0], node.input[1], optional_input(node, 2)
    dtype = graph.dtype(zero) if zero else values.get("output_dtype") or TensorProto.UINT8
    integers = (TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16, TensorProto.UINT16)
    if graph.dtype(x) in HALVES and not values.get("block_size", 0) and dtype in integers:
        wide = [build.cast(name, TensorProto.FLOAT) for name in (x, scale)]
        return [build.op("QuantizeLinear", *wide, *([zero] if zero else []), **values)]
    if not values.get("block_size", 0) or dtype not in integers:
        return None
    wide = [broadcast_parameter(build, name, x, values) for name in (scale, zero) if name]
    if not all(wide):
        return None
    limits = np.iinfo(helper.tensor_dtype_to_np_dtype(dtype))
    value = build.op("Round", build.op("Div", x, wide[0]))
    if zero:
        value = build.op("Add", value, build.cast(wide[1], graph.dtype(x)))
    return [build.cast(build.op("Clip", value, build.like(limits.min, x), build.like(limits.max, x)), dtype)]


def broadcast_parameter(build: Builder, name: str, like: str, values: Mapping[str, Any]) -> str:
    """A scale or zero point in a shape that broadcasts against ``like``, by the node's axis and block size.

    Returns "" if it is blocked and shapes are unknown.
    """
    axis, block = values.get("axis", 1), values.get("block_size", 0)
    if not block:
        return _along(build, name, name, like, axis)
    shape, target = build.graph.static_shape(name), build.graph.static_shape(like)
    if shape is None or target is None:
        return ""
    axis %= len(shape)
    wide = build.op(
        "Expand", build.unsqueeze(name, [axis + 1]), build.ints([*shape[: axis + 1], block, *shape[axis + 1 :]])
    )
    flat = build.reshape(wide, [*shape[:axis], shape[axis] * block, *shape[axis + 1 :]])
    return flat if shape[axis] * block == target[axis] else build.slice(flat, axis, 0, target[axis])


RULES = {
    "DequantizeLinear": dequantize,
    "QuantizeLinear": quantize,
    "MatMulInteger": matmul_integer,
    "QLinearMatMul": qlinear_matmul,
    "ConvInteger": conv_integer,
    "QLinearConv": qlinear_conv,
}
