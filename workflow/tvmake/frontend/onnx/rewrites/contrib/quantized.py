"""Rewrite ONNX Runtime's quantised operators (domain ``com.microsoft``) to DequantizeLinear, ONNX's operator and QuantizeLinear.

``tvmake.quantize`` determines which of them are computed in integers. ONNX Runtime's page ContribOperators describes the operators.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto

from tvmake.frontend.onnx.graph import Builder, Rule, attributes, optional_input
from tvmake.frontend.onnx.rewrites.quantized import (
    are_constants,
    dequantize_bias,
    dequantize_blocks,
    dequantize_operand,
    quantize_result,
)


def _pairwise(operator: str) -> Rule:
    def rule(node: onnx.NodeProto, build: Builder) -> list[str] | None:
        a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = _inputs(node, 8)
        result = build.op(
            operator, dequantize_operand(build, a, a_scale, a_zero), dequantize_operand(build, b, b_scale, b_zero)
        )
        return [quantize_result(build, result, y_scale, y_zero)]

    return rule


def _unary(operator: str, *option_names: str) -> Rule:
    def rule(node: onnx.NodeProto, build: Builder) -> list[str] | None:
        x, x_scale, x_zero, y_scale, y_zero = _inputs(node, 5)
        values = attributes(node)
        options = {name: value for name, value in values.items() if name in option_names}
        is_last = bool(values.get("channels_last"))
        if is_last and build.graph.rank(x) is None:
            return None
        first = channels_first(build, x) if is_last else x
        result = quantize_result(
            build, build.op(operator, dequantize_operand(build, first, x_scale, x_zero), **options), y_scale, y_zero
        )
        return [channels_last(build, result, x) if is_last else result]

    return rule


def channels_first(build: Builder, name: str) -> str:
    """Move the channels from last to first."""
    rank = build.graph.rank(name) or 0
    return build.transpose(name, [0, rank - 1, *range(1, rank - 1)])


def channels_last(build: Builder, name: str, like: str) -> str:
    """Move the channels from first to last; ``like`` is a value of the same rank."""
    rank = build.graph.rank(like) or 0
    return build.transpose(name, [0, *range(2, rank), 1])


def _convolution(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Transpose data with channels last; weights have ONNX's layout."""
    values = attributes(node)
    is_last = bool(values.pop("channels_last", 0))
    x = node.input[0]
    if is_last and build.graph.rank(x) is None:
        return None
    first = channels_first(build, x) if is_last else x
    result = build.op("QLinearConv", first, *node.input[1:], **values)
    return [channels_last(build, result, x) if is_last else result]


def _max_pool(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    x = node.input[0]
    if build.graph.rank(x) is None:
        return None
    return [channels_last(build, build.op("MaxPool", channels_first(build, x), **attributes(node)), x)]


def _softmax(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    x, x_scale, x_zero, y_scale, y_zero = _inputs(node, 5)
    values = attributes(node)
    if values.get("opset", 13) < 13 and values.get("axis", -1) not in (-1, (build.graph.rank(x) or 0) - 1):
        return None  # the older operator flattens
    result = build.op("Softmax", dequantize_operand(build, x, x_scale, x_zero), axis=values.get("axis", -1))
    return [quantize_result(build, result, y_scale, y_zero)]


def _concat(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    y_scale, y_zero, *rest = node.input
    parts = [dequantize_operand(build, *rest[first : first + 3]) for first in range(0, len(rest), 3)]
    return [quantize_result(build, build.op("Concat", *parts, axis=attributes(node)["axis"]), y_scale, y_zero)]


def _where(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    condition, x, x_scale, x_zero, y, y_scale, y_zero, z_scale, z_zero = _inputs(node, 9)
    result = build.op(
        "Where", condition, dequantize_operand(build, x, x_scale, x_zero), dequantize_operand(build, y, y_scale, y_zero)
    )
    return [quantize_result(build, result, z_scale, z_zero)]


def _gemm(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    a, a_scale, a_zero, b, b_scale, b_zero, bias, y_scale, y_zero = _inputs(node, 9)
    if not are_constants(build, a_scale, a_zero, b_scale, b_zero, bias):
        return None
    values = attributes(node)
    transposed = bool(values.get("transB"))
    alpha = values.get("alpha", 1.0)
    product = build.op(
        "Gemm", dequantize_operand(build, a, a_scale, a_zero), dequantize_operand(build, b, b_scale, b_zero, 0 if transposed else 1),
        transA=values.get("transA", 0), transB=int(transposed), alpha=alpha,
    )  # fmt: skip
    if bias:
        if alpha != 1.0:
            return None
        product = build.op("Add", product, dequantize_bias(build, bias, a_scale, b_scale))
    return [quantize_result(build, product, y_scale, y_zero) if y_scale else product]


def _dynamic_matmul(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    a, b, b_scale, b_zero, bias = _inputs(node, 5)
    quantised, a_scale, a_zero = build.ops("DynamicQuantizeLinear", 3, a)
    return [_scaled_matmul(build, [quantised, a_scale, a_zero], [b, b_scale, b_zero], bias)]


def _dynamic_lstm(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """A layer as a loop in one kernel: ONNX's operator with integer weights, whose scales and zero points are further operands
    (:func:`~tvmake.frontend.onnx.recurrent.convert_integer_lstm`).
    """
    operands = _inputs(node, 12)
    matrices = [_signed_weights(build, *(operands[index] for index in indices)) for indices in ((1, 8, 9), (2, 10, 11))]
    constants = []
    for index, matrix in enumerate(matrices, start=1):
        if matrix is None:
            return None
        operands[index] = build.const(matrix.weights, np.int8)
        constants.append(build.const(matrix.scales, np.float32))
        constants.append(build.const(matrix.zeros, np.int32) if matrix.zeros.any() else "")
    return build.ops("LSTM", 3, *operands[:8], *constants, **attributes(node))


class _SignedWeights(NamedTuple):
    """Integer weights of a layer, for each direction."""

    weights: np.ndarray
    """int8, [directions, extent, columns]."""
    scales: np.ndarray
    """float32, [directions, columns]."""
    zeros: np.ndarray
    """int8, of the same shape."""


def _signed_weights(build: Builder, weight: str, scale: str, zero: str) -> _SignedWeights | None:
    """Constant weights; None for others. Unsigned ones are shifted by 128."""
    values = [build.graph.weights(name) if name else None for name in (weight, scale, zero)]
    integers, scales, zeros = values
    if integers is None or scales is None or (zeros is None and zero):
        return None
    directions, _, columns = integers.shape
    if integers.dtype == np.uint8:
        integers = (integers.astype(np.int16) - 128).astype(np.int8)
        zeros = None if zeros is None else zeros.astype(np.int16) - 128
    zeros = np.zeros(1) if zeros is None else zeros
    by_column = [np.broadcast_to(value.reshape(len(value), -1), (directions, columns)) for value in (scales, zeros)]
    return _SignedWeights(integers, by_column[0], by_column[1].astype(np.int8))


def _matmul_to_float(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    a, b, a_scale, b_scale, a_zero, b_zero, bias = _inputs(node, 7)
    return [_scaled_matmul(build, [a, a_scale, a_zero], [b, b_scale, b_zero], bias)]


def _scaled_matmul(build: Builder, a: Sequence[str], b: Sequence[str], bias: str) -> str:
    """A dequantised integer matmul plus a bias."""
    sums = build.op("MatMulInteger", a[0], b[0], a[2], b[2])
    result = build.op("Mul", build.cast(sums, TensorProto.FLOAT), build.op("Mul", a[1], b[1]))
    return build.op("Add", result, bias) if bias else result


def _blocked_matmul(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """A matmul with dequantised weights, which are stored in a few bits, in blocks along the summed axis."""
    data, packed, scale, zero, order, bias = _inputs(node, 6)
    values = attributes(node)
    bits, rows, columns, size = (int(values.get(key, 4)) for key in ("bits", "K", "N", "block_size"))
    packed_values, scales = build.graph.weights(packed), build.graph.weights(scale)
    zeros = build.graph.weights(zero) if zero else np.asarray(1 << bits - 1)
    blocks = -(-rows // size)
    regular = np.arange(rows) // size
    block = build.graph.weights(order) if order else regular
    if packed_values is None or scales is None or zeros is None or block is None or bits not in (2, 4, 8):
        return None
    if block.shape != regular.shape or not ((block >= 0) & (block < blocks)).all():
        return None
    if order and zero and zeros.dtype == np.uint8:
        return None  # Repair: `permuted-zero-points`.
    integers = _unpack(packed_values.reshape(columns, blocks, -1), bits).reshape(columns, blocks * size)[:, :rows]
    if zeros.dtype == np.uint8 and zeros.ndim:
        zeros = _unpack(zeros.reshape(columns, -1), bits)[:, :blocks]
    zeros = np.broadcast_to(zeros.reshape(columns, blocks) if zeros.ndim else zeros, (columns, blocks))
    scales = scales.reshape(columns, blocks)
    by_block = np.argsort(block, kind="stable")
    has_fractions = zeros.dtype.kind == "f" and bool((zeros != np.rint(zeros)).any())
    if has_fractions or (block[by_block] != regular).any():
        centred = integers.astype(np.float32) - zeros.astype(np.float32)[:, block]
        matrix = build.graph.add_constant((centred * scales.astype(np.float32)[:, block]).T, packed)
    else:
        if (block != regular).any():  # make the rows of a block adjacent
            integers = integers[:, by_block]
            data = build.op("Gather", data, build.const(by_block, np.int64), axis=-1)
        matrix = build.transpose(dequantize_blocks(build, packed, integers, scales, zeros, 1, size), [1, 0])
    result = build.op("MatMul", data, build.cast(matrix, build.graph.dtype(node.input[0])))
    return [build.op("Add", result, bias) if bias else result]


def _blocked_gather(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Rows of a dequantised table, which is stored in a few bits, in blocks along an axis."""
    data, indices, scale, zero = _inputs(node, 4)
    values = attributes(node)
    packed_values, scales = build.graph.weights(data), build.graph.weights(scale)
    zeros = build.graph.weights(zero) if zero else np.asarray(0)
    if packed_values is None or scales is None or zeros is None or build.graph.dtype(data) not in BLOCKED:
        return None
    if build.graph.dtype(data) == TensorProto.UINT8:
        bits = int(values.get("bits", 4))
        packed_values = _unpack(packed_values, bits)
        zeros = _unpack(zeros, bits)[..., : scales.shape[-1]] if zero else np.asarray(1 << bits - 1)
    axis = int(values.get("quantize_axis", 1)) % packed_values.ndim
    size = int(values.get("block_size", 128))
    zeros = np.broadcast_to(zeros, scales.shape)
    table = build.cast(
        dequantize_blocks(build, data, packed_values, scales, zeros, axis, size), build.graph.dtype(scale)
    )
    return [build.op("Gather", table, indices, axis=int(values.get("gather_axis", 0)))]


def _unpack(packed_values: np.ndarray, bits: int) -> np.ndarray:
    """The integers packed in bytes; the lowest bits are the first one."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((packed_values[..., None] >> shifts) & ((1 << bits) - 1)).reshape(*packed_values.shape[:-1], -1)


def _rename(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Move the operator to ONNX's domain."""
    return [build.op(node.op_type, *node.input, axis=attributes(node).get("axis"))]


def _inputs(node: onnx.NodeProto, count: int) -> list[str]:
    return [optional_input(node, index) for index in range(count)]


BLOCKED = (TensorProto.UINT8, TensorProto.INT4, TensorProto.UINT4)
"""Supported element types of blocked tables."""

POOLING = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")

RULES: dict[str, Rule] = {
    "QLinearConv": _convolution,
    "NhwcMaxPool": _max_pool,
    "QLinearAdd": _pairwise("Add"),
    "QLinearMul": _pairwise("Mul"),
    "QLinearGlobalAveragePool": _unary("GlobalAveragePool"),
    "QLinearAveragePool": _unary("AveragePool", *POOLING),
    "QLinearLeakyRelu": _unary("LeakyRelu", "alpha"),
    "QLinearSigmoid": _unary("Sigmoid"),
    "QLinearSoftmax": _softmax,
    "QLinearConcat": _concat,
    "QLinearWhere": _where,
    "QGemm": _gemm,
    "DynamicQuantizeMatMul": _dynamic_matmul,
    "DynamicQuantizeLSTM": _dynamic_lstm,
    "MatMulIntegerToFloat": _matmul_to_float,
    "MatMulNBits": _blocked_matmul,
    "GatherBlockQuantized": _blocked_gather,
    "QuantizeLinear": _rename,
    "DequantizeLinear": _rename,
}
