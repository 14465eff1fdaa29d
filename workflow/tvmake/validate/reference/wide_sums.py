"""Write quantised operators whose int32 sums may wrap in ONNX Runtime as dequantised arithmetic, which packages follow.

Quantisers write biases near the limit of int32 for nearly dead channels. ONNX Runtime's kernels add the products to them in int32.
"""

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

INT32_MAX = 2**31 - 1

LARGEST_OPERAND = 255
"""Of 8 bits, after a zero point has been subtracted."""

FIRST_PER_CHANNEL = 13
"""The first opset in which DequantizeLinear has an axis."""


def write_out_wide_sums(model: onnx.ModelProto) -> int:
    """Replace in place every QLinearConv and QLinearMatMul whose sums may exceed int32; returns the number of replaced nodes."""
    opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 1)
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    nodes: list[onnx.NodeProto] = []
    replaced = 0
    for index, node in enumerate(model.graph.node):
        is_wide = node.op_type in OPERATORS and node.domain in ("", "ai.onnx") and opset >= FIRST_PER_CHANNEL
        if is_wide and OPERATORS[node.op_type](node, constants) > INT32_MAX:
            nodes += _dequantize(node, f"wide_{index}")
            replaced += 1
        else:
            nodes.append(node)
    if replaced:
        del model.graph.node[:]
        model.graph.node.extend(nodes)
    return replaced


Constants = Mapping[str, TensorProto]


def _value(constants: Constants, name: str) -> np.ndarray | None:
    return numpy_helper.to_array(constants[name]).astype(np.int64) if name in constants else None


def _largest_convolution(node: onnx.NodeProto, constants: Constants) -> int:
    """The largest magnitude that a sum of a QLinearConv may have; 0 if its constants are unknown."""
    weight, zero = _value(constants, node.input[3]), _value(constants, node.input[5])
    bias = _value(constants, node.input[8]) if len(node.input) > 8 and node.input[8] else np.zeros(1, np.int64)
    if weight is None or zero is None or bias is None:
        return 0
    centred = np.abs(weight - zero.reshape(-1, *[1] * (weight.ndim - 1)))
    return int((centred.reshape(len(weight), -1).sum(axis=1) * LARGEST_OPERAND + np.abs(bias)).max(initial=0))


def _largest_matmul(node: onnx.NodeProto, constants: Constants) -> int:
    weight, zero = _value(constants, node.input[3]), _value(constants, node.input[5])
    if weight is None or zero is None:
        return 0
    return int(np.abs(weight - zero).sum(axis=-2).max(initial=0)) * LARGEST_OPERAND


OPERATORS = {"QLinearConv": _largest_convolution, "QLinearMatMul": _largest_matmul}


def _dequantize(node: onnx.NodeProto, prefix: str) -> list[onnx.NodeProto]:
    """The operator on dequantised operands, and the quantisation of its result."""
    is_convolution = node.op_type == "QLinearConv"
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.input[:8]
    first, second, bias, scale, total = (f"{prefix}_{name}" for name in ("a", "b", "bias", "scale", "sum"))
    nodes = [
        helper.make_node("DequantizeLinear", [a, a_scale, a_zero], [first], axis=0 if is_convolution else -2),
        helper.make_node("DequantizeLinear", [b, b_scale, b_zero], [second], axis=0 if is_convolution else -1),
    ]
    operands = [first, second]
    if is_convolution and len(node.input) > 8 and node.input[8]:
        nodes.append(helper.make_node("Mul", [a_scale, b_scale], [scale]))
        nodes.append(helper.make_node("DequantizeLinear", [node.input[8], scale], [bias], axis=0))
        operands.append(bias)
    operator = helper.make_node("Conv" if is_convolution else "MatMul", operands, [total])
    operator.attribute.extend(node.attribute)
    return [*nodes, operator, helper.make_node("QuantizeLinear", [total, y_scale, y_zero], list(node.output))]
