"""Replace narrow element types (``narrow_types``) by bytes and by types that TVM computes in.

A small float is decoded by a table of its values. To encode it, its magnitude is divided by the step of its power of two and rounded
half to even. Operators that only move elements move the bytes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tvmake.errors import InputError
from tvmake.frontend.onnx.graph import Builder, Graph, attributes, fix_shapes, optional_input, subgraphs
from tvmake.frontend.onnx.narrow_types import (
    NARROW,
    SMALL_FLOATS,
    SMALL_INTEGERS,
    decoding_table,
    storage_type,
    to_storage_dtype,
)
from tvmake.frontend.onnx.rewrites.quantized import broadcast_parameter

MOVES = frozenset({
    "Identity", "Constant", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Gather", "GatherElements", "GatherND",
    "Concat", "Split", "Expand", "Tile", "Where", "DepthToSpace", "ScatterND", "ScatterElements", "Shape", "Size",
})  # fmt: skip
"""Operators that only move elements."""


def replace_narrow_types(graph: Graph) -> int:
    """Replace narrow types by their storage types; returns the number of changed nodes.

    The graph is unchanged if it has an operator without a form in bytes; that operator is refused later.
    """
    narrow = {name for name, kind in graph.dtypes.items() if kind in NARROW}
    constants = [node for node in graph.graph.node if node.op_type == "Constant" and _is_narrow_constant(node)]
    if not narrow and not constants:
        return 0
    concerned = [node for node in graph.graph.node if narrow & {*node.input, *node.output}]
    if any(node.op_type not in MOVES | _RULES.keys() for node in concerned) or _bodies_read(graph, narrow):
        return 0
    nodes: list[onnx.NodeProto] = []
    for index, node in enumerate(graph.graph.node):
        rule = _RULES.get(node.op_type) if narrow & {*node.input, *node.output} else None
        build = Builder(graph, f"{node.op_type}_{index}")
        result = rule(node, build) if rule else None
        if result is None:
            nodes.append(node)
            continue
        nodes.extend([*build.nodes, helper.make_node("Identity", [result], [node.output[0]])])
    del graph.graph.node[:]
    graph.graph.node.extend(nodes)
    for node in constants:
        for attribute in node.attribute:
            if attribute.name == "value":
                attribute.t.CopyFrom(_to_storage(attribute.t))
    for tensor in graph.graph.initializer:
        if tensor.data_type in NARROW:
            tensor.CopyFrom(_to_storage(tensor))
    for name, tensor in graph.large.items():
        if tensor.data_type in NARROW:
            graph.large[name] = _to_storage(tensor)
    for value in (*graph.graph.input, *graph.graph.output):
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.elem_type = storage_type(value.type.tensor_type.elem_type)
    if changed := len(concerned) + len(constants):
        graph.refresh()
    return changed


def _is_narrow_constant(node: onnx.NodeProto) -> bool:
    return any(attribute.name == "value" and attribute.t.data_type in NARROW for attribute in node.attribute)


def _bodies_read(graph: Graph, names: set[str]) -> bool:
    """Whether a loop's or a branch's body reads one of the values."""
    pending = [body for node in graph.graph.node for body in subgraphs(node)]
    while pending:
        body = pending.pop()
        if names & {value.name for value in body.output}:
            return True
        for node in body.node:
            if names & set(node.input):
                return True
            pending.extend(subgraphs(node))
    return False


def _to_storage(tensor: TensorProto) -> TensorProto:
    return numpy_helper.from_array(to_storage_dtype(numpy_helper.to_array(tensor)), tensor.name)


def cast(node: onnx.NodeProto, build: Builder) -> str | None:
    """Cast from or to a narrow type."""
    graph, values = build.graph, attributes(node)
    source = graph.dtype(node.input[0])
    target = values["to"] if node.op_type == "Cast" else graph.dtype(node.input[1])
    data = _decode(build, node.input[0], source) if source in SMALL_FLOATS else node.input[0]
    if target in SMALL_FLOATS:
        saturates = bool(values.get("saturate", 1))
        return _encode(build, build.cast(data, TensorProto.FLOAT), target, saturates, values.get("round_mode", "up"))
    if target in SMALL_INTEGERS:
        return _wrap(build, data, target)
    return build.cast(data, target)


def _wrap(build: Builder, data: str, target: int) -> str:
    """The lowest bits of an integer."""
    low, high = SMALL_INTEGERS[target]
    offset, count = build.const(-low, np.int32), build.const(high - low + 1, np.int32)
    whole = build.op("Add", build.cast(data, TensorProto.INT32), offset)
    return build.cast(build.op("Sub", build.op("Mod", whole, count), offset), storage_type(target))


def _decode(build: Builder, bits: str, source: int) -> str:
    table = build.const(decoding_table(source), np.float32)
    return build.op("Gather", table, build.cast(bits, TensorProto.INT32), axis=0)


def _encode(build: Builder, x: str, target: int, saturates: bool, round_mode: str) -> str:
    """The bits of float32 values in a small float's format."""
    kind = SMALL_FLOATS[target]
    lowest = 1 - kind.bias if kind.has_subnormals else -kind.bias
    levels = (kind.largest >> kind.mantissa) - int(kind.has_subnormals) + 1
    powers = np.float64(2) ** (lowest + np.arange(levels))

    def number(value: float) -> str:
        return build.const(value, np.float32)

    is_nan = build.op("IsNaN", x)
    magnitude = build.op("Abs", build.op("Where", is_nan, number(0), x))
    top = min(2 * powers[-1], float(np.finfo(np.float32).max))
    bounded = build.op("Min", magnitude, number(top))
    # Compute the exponent by a logarithm that may be off by one, then correct it.
    guess = build.op("Floor", build.op("Mul", build.op("Log", bounded), number(1 / np.log(2))))
    level = build.op("Clip", build.op("Sub", guess, number(lowest)), number(0), number(levels - 1))
    table = build.const(powers.astype(np.float32), np.float32)

    def power(at: str) -> str:
        return build.op("Gather", table, build.cast(at, TensorProto.INT32), axis=0)

    below = power(level)
    is_higher = build.op("And", build.op("Not", build.op("Less", bounded, build.op("Mul", below, number(2)))),
                         build.op("Less", level, number(levels - 1)))  # fmt: skip
    is_lower = build.op("And", build.op("Less", bounded, below), build.op("Greater", level, number(0)))
    level = build.op("Add", level, build.cast(is_higher, TensorProto.FLOAT))
    level = build.op("Sub", level, build.cast(is_lower, TensorProto.FLOAT))
    below = power(level)
    if kind.mantissa:
        steps = build.op("Div", build.op("Mul", bounded, number(2.0**kind.mantissa)), below)
        code = build.op("Add", build.op("Round", steps), build.op("Mul", level, number(2.0**kind.mantissa)))
    else:
        rounds_up = {
            "up": lambda: build.op("Greater", bounded, below),
            "nearest": lambda: build.op("Not", build.op("Less", bounded, build.op("Mul", below, number(1.5)))),
        }.get(round_mode)
        code = build.op("Add", level, build.cast(rounds_up(), TensorProto.FLOAT)) if rounds_up else level
    if saturates or kind.largest == kind.beyond:
        code = build.op("Min", code, number(kind.largest))
    else:
        code = build.op("Where", build.op("Greater", code, number(kind.largest)), number(kind.beyond), code)
    if kind.sign:
        # The quotient distinguishes -0 from 0.
        is_negative = build.op(
            "Or", build.op("Less", x, number(0)), build.op("Less", build.op("Div", number(1), x), number(0))
        )
        if not kind.has_negative_zero:
            is_negative = build.op("And", is_negative, build.op("Greater", code, number(0)))
            is_negative = build.op("And", is_negative, build.op("Less", code, number(kind.sign)))
        signed = build.op("Add", code, number(kind.sign))
        code = build.op("Where", is_negative, signed, code)
    else:
        is_nan = build.op("Or", is_nan, build.op("IsInf", x))
    return build.cast(build.op("Where", is_nan, number(kind.nan), code), TensorProto.UINT8)


def dequantize(node: onnx.NodeProto, build: Builder) -> str | None:
    """Multiply small floats by their scales; DequantizeLinear supports integers stored in bytes."""
    graph, values = build.graph, attributes(node)
    x, scale, zero = node.input[0], node.input[1], optional_input(node, 2)
    kind = graph.dtype(x)
    if kind not in SMALL_FLOATS:
        return None
    dtype = values.get("output_dtype") or graph.dtype(scale)
    value = build.cast(_decode(build, x, kind), dtype)
    wide = _broadcast_parameters(build, (scale, zero), x, values)
    if zero:
        value = build.op("Sub", value, build.cast(_decode(build, wide[1], kind), dtype))
    return build.op("Mul", value, build.cast(wide[0], dtype))


def _broadcast_parameters(build: Builder, names: Sequence[str], x: str, values: dict[str, Any]) -> list[str]:
    parameters = [broadcast_parameter(build, name, x, values) for name in names if name]
    if not all(parameters):
        raise InputError(
            build.graph.where,
            f"scales by blocks of {x!r} need fixed extents",
            f"Give the inputs fixed shapes: {fix_shapes(build.graph.graph)}.",
        )
    return parameters


def quantize(node: onnx.NodeProto, build: Builder) -> str | None:
    """Divide by the scale, round half to even, saturate."""
    graph, values = build.graph, attributes(node)
    x, scale, zero = node.input[0], node.input[1], optional_input(node, 2)
    kind = graph.dtype(node.output[0])
    if kind not in NARROW:
        return None
    wide = _broadcast_parameters(build, (scale, zero), x, values)
    dtype = values.get("precision") or graph.dtype(scale)
    value = build.op("Div", build.cast(x, dtype), build.cast(wide[0], dtype))
    if kind in SMALL_FLOATS:
        if zero and kind == TensorProto.FLOAT4E2M1:  # floats of eight bits have a zero point of 0, which names the type
            value = build.op("Add", value, build.cast(_decode(build, wide[1], kind), dtype))
        return _encode(build, build.cast(value, TensorProto.FLOAT), kind, bool(values.get("saturate", 1)), "up")
    low, high = SMALL_INTEGERS[kind]
    value = build.cast(build.op("Round", value), TensorProto.FLOAT)
    if zero:
        value = build.op("Add", value, build.cast(wide[1], TensorProto.FLOAT))
    bounds = build.const(low, np.float32), build.const(high, np.float32)
    return build.cast(build.op("Clip", value, *bounds), storage_type(kind))


_RULES = {"Cast": cast, "CastLike": cast, "DequantizeLinear": dequantize, "QuantizeLinear": quantize}
