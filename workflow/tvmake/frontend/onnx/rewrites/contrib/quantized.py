"""ONNX Runtime's quantised operators (domain ``com.microsoft``) as ONNX: integers to real numbers, the operator, and back.

Which of it is computed in integers is decided where all sources meet (``tvmake.quantize``). The operators are described in ONNX
Runtime's page on them (ContribOperators).
"""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto

from tvmake.frontend.onnx.graph import Builder, Rule, attributes, optional_input
from tvmake.frontend.onnx.rewrites.quantized import are_constants, real, real_bias, real_blocks, stored
from tvmake.frontend.onnx.rewrites.rnn import Layer, Times, lstm


def _pairwise(operator: str) -> Rule:
    def rule(node: onnx.NodeProto, build: Builder) -> list[str] | None:
        a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = _inputs(node, 8)
        result = build.op(operator, real(build, a, a_scale, a_zero), real(build, b, b_scale, b_zero))
        return [stored(build, result, y_scale, y_zero)]

    return rule


def _single(operator: str, *kept: str) -> Rule:
    def rule(node: onnx.NodeProto, build: Builder) -> list[str] | None:
        x, x_scale, x_zero, y_scale, y_zero = _inputs(node, 5)
        values = attributes(node)
        chosen = {name: value for name, value in values.items() if name in kept}
        is_last = bool(values.get("channels_last"))
        if is_last and build.graph.rank(x) is None:
            return None
        first = channels_first(build, x) if is_last else x
        result = stored(build, build.op(operator, real(build, first, x_scale, x_zero), **chosen), y_scale, y_zero)
        return [channels_last(build, result, x) if is_last else result]

    return rule


def channels_first(build: Builder, name: str) -> str:
    """A value with channels last, with channels first."""
    rank = build.graph.rank(name) or 0
    return build.transpose(name, [0, rank - 1, *range(1, rank - 1)])


def channels_last(build: Builder, name: str, like: str) -> str:
    """The opposite; ``like`` is a value of the same rank."""
    rank = build.graph.rank(like) or 0
    return build.transpose(name, [0, *range(2, rank), 1])


def _convolution(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """ONNX's, but that channels may be last; weights are as in ONNX."""
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
        return None  # the older one flattens
    result = build.op("Softmax", real(build, x, x_scale, x_zero), axis=values.get("axis", -1))
    return [stored(build, result, y_scale, y_zero)]


def _concat(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    y_scale, y_zero, *rest = node.input
    parts = [real(build, *rest[first : first + 3]) for first in range(0, len(rest), 3)]
    return [stored(build, build.op("Concat", *parts, axis=attributes(node)["axis"]), y_scale, y_zero)]


def _where(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    chosen, x, x_scale, x_zero, y, y_scale, y_zero, z_scale, z_zero = _inputs(node, 9)
    result = build.op("Where", chosen, real(build, x, x_scale, x_zero), real(build, y, y_scale, y_zero))
    return [stored(build, result, z_scale, z_zero)]


def _gemm(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    a, a_scale, a_zero, b, b_scale, b_zero, bias, y_scale, y_zero = _inputs(node, 9)
    if not are_constants(build, a_scale, a_zero, b_scale, b_zero, bias):
        return None
    values = attributes(node)
    transposed = bool(values.get("transB"))
    alpha = values.get("alpha", 1.0)
    product = build.op(
        "Gemm", real(build, a, a_scale, a_zero), real(build, b, b_scale, b_zero, 0 if transposed else 1),
        transA=values.get("transA", 0), transB=int(transposed), alpha=alpha,
    )  # fmt: skip
    if bias:
        if alpha != 1.0:
            return None
        product = build.op("Add", product, real_bias(build, bias, a_scale, b_scale))
    return [stored(build, product, y_scale, y_zero) if y_scale else product]


def _dynamic_matmul(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    a, b, b_scale, b_zero, bias = _inputs(node, 5)
    quantised, a_scale, a_zero = build.ops("DynamicQuantizeLinear", 3, a)
    return [_scaled(build, [quantised, a_scale, a_zero], [b, b_scale, b_zero], bias)]


class _DynamicLayer(Layer):
    """A recurrent layer whose weights, [directions, extent, gates·hidden], are integers, and whose inputs and states are rounded on the way."""

    def times(self, index: int, direction: int) -> Times:
        scale, zero = (8, 9) if index == 1 else (10, 11)
        held = [self.part(self.input(place), direction) for place in (index, scale, zero) if self.input(place)]

        def product(value: str) -> str:
            return _scaled(self.build, self.build.ops("DynamicQuantizeLinear", 3, value), [*held, ""][:3], "")

        return product


def _dynamic_lstm(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    return lstm(node, build, _DynamicLayer)


def _matmul_to_float(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    a, b, a_scale, b_scale, a_zero, b_zero, bias = _inputs(node, 7)
    return [_scaled(build, [a, a_scale, a_zero], [b, b_scale, b_zero], bias)]


def _scaled(build: Builder, a: Sequence[str], b: Sequence[str], bias: str) -> str:
    """A product of integers as real numbers, plus a bias."""
    sums = build.op("MatMulInteger", a[0], b[0], a[2], b[2])
    result = build.op("Mul", build.cast(sums, TensorProto.FLOAT), build.op("Mul", a[1], b[1]))
    return build.op("Add", result, bias) if bias else result


def _blocked_matmul(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """The product with real numbers for weights that are held in a few bits, in blocks along the rows of the other operand."""
    data, packed, scale, zero, order, bias = _inputs(node, 6)
    values = attributes(node)
    bits, rows, columns, size = (int(values.get(key, 4)) for key in ("bits", "K", "N", "block_size"))
    held, scales = build.graph.weights(packed), build.graph.weights(scale)
    zeros = build.graph.weights(zero) if zero else np.asarray(1 << bits - 1)
    blocks = -(-rows // size)
    regular = np.arange(rows) // size
    block = build.graph.weights(order) if order else regular
    if held is None or scales is None or zeros is None or block is None or bits not in (2, 4, 8):
        return None
    if block.shape != regular.shape or not ((block >= 0) & (block < blocks)).all():
        return None
    if order and zero and zeros.dtype == np.uint8:
        return None  # ONNX Runtime 1.31 takes 8 for every zero point then
    integers = _unpacked(held.reshape(columns, blocks, -1), bits).reshape(columns, blocks * size)[:, :rows]
    if zeros.dtype == np.uint8 and zeros.ndim:
        zeros = _unpacked(zeros.reshape(columns, -1), bits)[:, :blocks]
    zeros = np.broadcast_to(zeros.reshape(columns, blocks) if zeros.ndim else zeros, (columns, blocks))
    scales = scales.reshape(columns, blocks)
    by_block = np.argsort(block, kind="stable")
    has_fractions = zeros.dtype.kind == "f" and bool((zeros != np.rint(zeros)).any())
    if has_fractions or (block[by_block] != regular).any():
        centred = integers.astype(np.float32) - zeros.astype(np.float32)[:, block]
        matrix = build.graph.add_constant((centred * scales.astype(np.float32)[:, block]).T, packed)
    else:
        if (block != regular).any():  # rows of a block beside each other, as their quantiser had them
            integers = integers[:, by_block]
            data = build.op("Gather", data, build.const(by_block, np.int64), axis=-1)
        matrix = build.transpose(real_blocks(build, packed, integers, scales, zeros, 1, size), [1, 0])
    result = build.op("MatMul", data, build.cast(matrix, build.graph.dtype(node.input[0])))
    return [build.op("Add", result, bias) if bias else result]


def _blocked_gather(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Rows of the table of real numbers for one that is held in a few bits, in blocks along an axis."""
    data, places, scale, zero = _inputs(node, 4)
    values = attributes(node)
    held, scales = build.graph.weights(data), build.graph.weights(scale)
    zeros = build.graph.weights(zero) if zero else np.asarray(0)
    if held is None or scales is None or zeros is None or build.graph.dtype(data) not in BLOCKED:
        return None
    if build.graph.dtype(data) == TensorProto.UINT8:
        bits = int(values.get("bits", 4))
        held = _unpacked(held, bits)
        zeros = _unpacked(zeros, bits)[..., : scales.shape[-1]] if zero else np.asarray(1 << bits - 1)
    axis = int(values.get("quantize_axis", 1)) % held.ndim
    size = int(values.get("block_size", 128))
    zeros = np.broadcast_to(zeros, scales.shape)
    table = build.cast(real_blocks(build, data, held, scales, zeros, axis, size), build.graph.dtype(scale))
    return [build.op("Gather", table, places, axis=int(values.get("gather_axis", 0)))]


def _unpacked(held: np.ndarray, bits: int) -> np.ndarray:
    """The numbers in bytes, the one in the lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((held[..., None] >> shifts) & ((1 << bits) - 1)).reshape(*held.shape[:-1], -1)


def _renamed(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """The same in ONNX's own domain."""
    return [build.op(node.op_type, *node.input, axis=attributes(node).get("axis"))]


def _inputs(node: onnx.NodeProto, count: int) -> list[str]:
    return [optional_input(node, index) for index in range(count)]


BLOCKED = (TensorProto.UINT8, TensorProto.INT4, TensorProto.UINT4)
"""Types of tables in blocks that are read."""

POOLING = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")

RULES: dict[str, Rule] = {
    "QLinearConv": _convolution,
    "NhwcMaxPool": _max_pool,
    "QLinearAdd": _pairwise("Add"),
    "QLinearMul": _pairwise("Mul"),
    "QLinearGlobalAveragePool": _single("GlobalAveragePool"),
    "QLinearAveragePool": _single("AveragePool", *POOLING),
    "QLinearLeakyRelu": _single("LeakyRelu", "alpha"),
    "QLinearSigmoid": _single("Sigmoid"),
    "QLinearSoftmax": _softmax,
    "QLinearConcat": _concat,
    "QLinearWhere": _where,
    "QGemm": _gemm,
    "DynamicQuantizeMatMul": _dynamic_matmul,
    "DynamicQuantizeLSTM": _dynamic_lstm,
    "MatMulIntegerToFloat": _matmul_to_float,
    "MatMulNBits": _blocked_matmul,
    "GatherBlockQuantized": _blocked_gather,
    "QuantizeLinear": _renamed,
    "DequantizeLinear": _renamed,
}
