"""Rewrite ONNX Runtime's floating-point operators (domain ``com.microsoft``) to ONNX's own, without attention.

ONNX Runtime's page ContribOperators describes the operators.
"""

import math
from collections.abc import Mapping

import numpy as np
import onnx

from tvmake.frontend.onnx.graph import Builder, Rule, attributes, optional_input

ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    "Relu": (), "Tanh": (), "Sigmoid": (), "Softplus": (), "Softsign": (), "LeakyRelu": ("alpha",), "Elu": ("alpha",),
    "ThresholdedRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"), "Selu": ("alpha", "gamma"), "Clip": ("min", "max"),
}  # fmt: skip
"""Activations that are fused into a convolution or matmul, with their parameters in order."""


def _activate(build: Builder, value: str, like: str, name: str, numbers: Mapping[str, float]) -> str | None:
    """Apply an activation to a value with the dtype of ``like``; None for an unknown activation."""
    if not name:
        return value
    if name not in ACTIVATIONS:
        return None
    if name == "Clip":
        return build.op("Clip", value, *(build.like(numbers[bound], like) for bound in ACTIVATIONS[name]))
    return build.op(name, value, **{key: numbers[key] for key in ACTIVATIONS[name] if key in numbers})


def _conv(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    values = attributes(node)
    name, numbers = values.pop("activation", ""), values.pop("activation_params", [])
    summand = optional_input(node, 3)
    result = build.op("Conv", *(part for part in node.input[:3] if part), **values)
    result = build.op("Add", result, summand) if summand else result
    activated = _activate(
        build, result, node.input[0], name, dict(zip(ACTIVATIONS.get(name, ()), numbers, strict=False))
    )
    return None if activated is None else [activated]


def _gemm(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    values = attributes(node)
    name, numbers = _activation_of(values)
    result = build.op("Gemm", *node.input, **values)
    activated = _activate(build, result, node.input[0], name, numbers)
    return None if activated is None else [activated]


def _activation_of(values: dict[str, object]) -> tuple[str, dict[str, float]]:
    """Remove the activation and its parameters from a node's attributes, and return them."""
    name = str(values.pop("activation", ""))
    numbers = {key: values.pop(key) for key in list(values) if key.startswith("activation_")}
    return name, {key.removeprefix("activation_"): value for key, value in numbers.items()}  # type: ignore[misc]


def _matmul(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    values = attributes(node)
    name, numbers = _activation_of(values)
    a = _transpose_operand(build, node.input[0], values.get("transA", 0), values.get("transBatchA", 0))
    b = _transpose_operand(build, node.input[1], values.get("transB", 0), values.get("transBatchB", 0))
    if a is None or b is None:
        return None
    result, alpha = build.op("MatMul", a, b), values.get("alpha", 1.0)
    if alpha != 1.0:
        result = build.op("Mul", result, build.like(alpha, node.input[0]))
    activated = _activate(build, result, node.input[0], name, numbers)
    return None if activated is None else [activated]


def _transpose_operand(build: Builder, name: str, is_transposed: int, is_batch_moved: int) -> str | None:
    """Transpose an operand's last two axes if ``is_transposed``; before that, move the first axis if ``is_batch_moved``."""
    if not is_transposed and not is_batch_moved:
        return name
    rank = build.graph.rank(name)
    if rank is None:
        return None
    if rank < 2:
        return name
    axes = [*range(1, rank - 1), 0, rank - 1] if is_batch_moved else list(range(rank))
    if is_transposed:
        axes[-2], axes[-1] = axes[-1], axes[-2]
    return build.transpose(name, axes)


def gelu(build: Builder, x: str, like: str, is_approximate: bool = False) -> str:
    """GELU of a value with the dtype of ``like``: one operator since opset 20, written out before."""
    if build.graph.opset >= 20:
        return build.op("Gelu", x, approximate="tanh" if is_approximate else "none")

    def number(value: float) -> str:
        return build.like(value, like)

    if is_approximate:
        cube = build.op("Mul", build.op("Mul", x, x), build.op("Mul", x, number(0.044715)))
        inner = build.op("Tanh", build.op("Mul", build.op("Add", x, cube), number(math.sqrt(2 / math.pi))))
    else:
        inner = build.op("Erf", build.op("Div", x, number(math.sqrt(2))))
    return build.op("Mul", build.op("Mul", x, number(0.5)), build.op("Add", inner, number(1)))


def _gelu(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    bias = optional_input(node, 1)
    x = build.op("Add", node.input[0], bias) if bias else node.input[0]
    return [gelu(build, x, node.input[0], node.op_type == "FastGelu")]


def _quick_gelu(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    x, alpha = node.input[0], attributes(node).get("alpha", 1.702)
    inner = x if alpha == 1.0 else build.op("Mul", x, build.like(alpha, x))
    return [build.op("Mul", x, build.op("Sigmoid", inner))]


def _normalize(
    build: Builder, x: str, like: str, scale: str, bias: str, epsilon: float, has_mean: bool = True, axis: int = -1
) -> str | None:
    """A layer norm, or an RMS norm without ``has_mean``, over the axes from ``axis`` on."""
    since = 17 if has_mean else 23
    if build.graph.opset >= since:
        operator = "LayerNormalization" if has_mean else "RMSNormalization"
        return build.op(operator, x, scale, *([bias] if bias else []), axis=axis, epsilon=epsilon)
    rank = build.graph.rank(like)
    if axis != -1 and rank is None:
        return None
    axes = [-1] if axis == -1 else list(range(axis % (rank or 1), rank or 1))
    deviation = build.op("Sub", x, build.reduce("ReduceMean", x, axes)) if has_mean else x
    square = build.reduce("ReduceMean", build.op("Mul", deviation, deviation), axes)
    root = build.op("Sqrt", build.op("Add", square, build.like(epsilon, like)))
    result = build.op("Mul", build.op("Div", deviation, root), scale)
    return build.op("Add", result, bias) if bias else result


def _layer_norm(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Rewrite a layer norm from before ONNX had it, and the variant without means; statistics are not returned."""
    if any(node.output[1:]):
        return None
    values = attributes(node)
    result = _normalize(
        build, node.input[0], node.input[0], node.input[1], optional_input(node, 2), values.get("epsilon", 1e-5),
        node.op_type == "LayerNormalization", values.get("axis", -1),
    )  # fmt: skip
    return None if result is None else [result]


def _skip_layer_norm(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Normalise a sum; the fourth output is the sum, and statistics are not returned."""
    if any(node.output[1:3]):
        return None
    has_mean = node.op_type == "SkipLayerNormalization"
    x, skip, scale = node.input[:3]
    beta = optional_input(node, 3) if has_mean else ""
    bias = optional_input(node, 4 if has_mean else 3)
    total = build.op("Add", x, skip)
    total = build.op("Add", total, bias) if bias else total
    result = _normalize(build, total, x, scale, beta, attributes(node).get("epsilon", 1e-12), has_mean)
    return None if result is None else [result, "", "", total]


def _triangle(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    return [build.op("Trilu", *node.input, upper=attributes(node).get("upper", 1))] if build.graph.opset >= 14 else None


def _expand_dims(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    axis = build.graph.constant(node.input[1])
    return None if axis is None or axis.size != 1 else [build.unsqueeze(node.input[0], [int(axis.reshape(-1)[0])])]


def _pad(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    widths = build.graph.constant(node.input[1])
    if widths is None or build.graph.opset < 11:
        return None
    mode = attributes(node).get("mode", "constant")
    return [build.op("Pad", node.input[0], build.ints(widths.reshape(-1).tolist()), *node.input[2:3], mode=mode)]


def _grid_sample(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Use ONNX's operator, which exists since opset 16; from 20 on its modes have other names."""
    values = attributes(node)
    if build.graph.opset < 16:
        return None
    mode = values.get("mode", "bilinear")
    if build.graph.opset >= 20:
        mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    options = {key: values[key] for key in ("align_corners", "padding_mode") if key in values}
    return [build.op("GridSample", *node.input, mode=mode, **options)]


def _embeddings(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Normalise a sum of embeddings; also return the numbers of unmasked words and the sum."""
    ids, segments, words, position_table, segment_table, scale, beta, mask, positions = (
        optional_input(node, index) for index in range(9)
    )
    shape = build.graph.static_shape(ids)
    if not build.graph.dtype(words):
        return None
    if positions:
        position = build.op("Gather", position_table, positions)
    elif shape is not None:
        position = build.op("Gather", position_table, build.const(np.arange(shape[1]).reshape(1, -1), np.int64))
    else:
        length = build.reshape(build.slice(build.op("Shape", ids), 0, 1, 2), [])
        numbers = build.op("Range", build.const(0, np.int64), length, build.const(1, np.int64))
        position = build.op("Gather", position_table, build.unsqueeze(numbers, [0]))
    total = build.op("Add", build.op("Gather", words, ids), position)
    total = build.op("Add", total, build.op("Gather", segment_table, segments)) if segments else total
    result = _normalize(build, total, words, scale, beta, attributes(node).get("epsilon", 1e-12))
    if result is None:
        return None
    count = ""
    if mask:
        count = build.reduce("ReduceSum", mask, [1], keepdims=False)
    elif len(node.output) > 1 and node.output[1]:
        first = build.squeeze(build.slice(ids, 1, 0, 1), [1])
        count = build.op("Mul", first, build.like(0, ids))
    return [result, count, total]


RULES: dict[str, Rule] = {
    "FusedConv": _conv,
    "FusedGemm": _gemm,
    "FusedMatMul": _matmul,
    "FusedMatMulActivation": _matmul,
    "TransposeMatMul": _matmul,
    "Gelu": _gelu,
    "BiasGelu": _gelu,
    "FastGelu": _gelu,
    "QuickGelu": _quick_gelu,
    "LayerNormalization": _layer_norm,
    "SimplifiedLayerNormalization": _layer_norm,
    "SkipLayerNormalization": _skip_layer_norm,
    "SkipSimplifiedLayerNormalization": _skip_layer_norm,
    "EmbedLayerNormalization": _embeddings,
    "ExpandDims": _expand_dims,
    "GridSample": _grid_sample,
    "Pad": _pad,
    "Trilu": _triangle,
}
