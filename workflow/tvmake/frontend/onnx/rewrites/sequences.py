"""Replace sequences of known length by their elements if all positions are known.

TVM's importer keeps sequences as tuples and gets some positions wrong.
"""

import numpy as np
import onnx
from onnx import helper

from tvmake.frontend.onnx.graph import Builder, Graph, attributes

MAX_ELEMENTS = 1024


def resolve_sequences(graph: Graph) -> int:
    """Replace sequence operators by the values that they select; returns the number of removed nodes."""
    known: dict[str, list[str]] = {}
    nodes: list[onnx.NodeProto] = []
    resolved = 0
    for index, node in enumerate(graph.graph.node):
        build = Builder(graph, f"{node.op_type}_{index}")
        rule = _RULES.get(node.op_type)
        value = rule(node, build, known) if rule else None
        if value is None:
            nodes.append(node)
            continue
        resolved += 1
        nodes.extend(build.nodes)
        if isinstance(value, str):
            nodes.append(helper.make_node("Identity", [value], [node.output[0]]))
        else:
            known[node.output[0]] = value
    # Not if a remaining node reads a sequence, or if a sequence is an output.
    read = {name for node in nodes for name in node.input} | {value.name for value in graph.graph.output}
    if not resolved or read & set(known):
        return 0
    del graph.graph.node[:]
    graph.graph.node.extend(nodes)
    return resolved


Known = dict[str, list[str]]


def _position(node: onnx.NodeProto, build: Builder, index: int, default: int) -> int | None:
    if index >= len(node.input) or not node.input[index]:
        return default
    value = build.graph.constant(node.input[index])
    return None if value is None else int(value.reshape(-1)[0])


def _construct(node: onnx.NodeProto, build: Builder, known: Known) -> list[str]:
    return list(node.input)


def _empty(node: onnx.NodeProto, build: Builder, known: Known) -> list[str]:
    return []


def _insert(node: onnx.NodeProto, build: Builder, known: Known) -> list[str] | None:
    elements = known.get(node.input[0])
    if elements is None:
        return None
    position = _position(node, build, 2, len(elements))
    if position is None:
        return None
    position += len(elements) if position < 0 else 0
    return [*elements[:position], node.input[1], *elements[position:]]


def _erase(node: onnx.NodeProto, build: Builder, known: Known) -> list[str] | None:
    elements = known.get(node.input[0])
    position = _position(node, build, 1, -1)
    if not elements or position is None:
        return None
    position %= len(elements)
    return elements[:position] + elements[position + 1 :]


def _at(node: onnx.NodeProto, build: Builder, known: Known) -> str | None:
    elements = known.get(node.input[0])
    position = _position(node, build, 1, 0)
    return None if not elements or position is None else elements[position % len(elements)]


def _length(node: onnx.NodeProto, build: Builder, known: Known) -> str | None:
    elements = known.get(node.input[0])
    return None if elements is None else build.const(len(elements), np.int64)


def _concat(node: onnx.NodeProto, build: Builder, known: Known) -> str | None:
    elements = known.get(node.input[0])
    if not elements:
        return None
    values = attributes(node)
    axis = values["axis"]
    if values.get("new_axis", 0):
        return build.concat([build.unsqueeze(name, [axis]) for name in elements], axis)
    return build.concat(elements, axis)


def _split(node: onnx.NodeProto, build: Builder, known: Known) -> list[str] | None:
    graph, values = build.graph, attributes(node)
    shape = graph.shape(node.input[0])
    axis = values.get("axis", 0)
    if shape is None or not isinstance(shape[axis], int):
        return None
    extent: int = shape[axis]
    has_split = len(node.input) > 1 and bool(node.input[1])
    if not has_split:
        sizes = [1] * extent
    else:
        split = graph.constant(node.input[1])
        if split is None:
            return None
        step = int(split.reshape(-1)[0])
        sizes = [min(step, extent - at) for at in range(0, extent, step)] if split.ndim == 0 else split.tolist()
    if not 0 < len(sizes) <= MAX_ELEMENTS:
        return None
    parts = (
        build.ops("Split", len(sizes), node.input[0], build.ints(sizes), axis=axis)
        if len(sizes) > 1
        else [node.input[0]]
    )
    if not has_split and not values.get("keepdims", 1):
        parts = [build.squeeze(part, [axis]) for part in parts]
    return parts


def _identity(node: onnx.NodeProto, build: Builder, known: Known) -> list[str] | None:
    return known.get(node.input[0])


_RULES = {
    "SequenceConstruct": _construct,
    "SequenceEmpty": _empty,
    "SequenceInsert": _insert,
    "SequenceErase": _erase,
    "SequenceAt": _at,
    "SequenceLength": _length,
    "ConcatFromSequence": _concat,
    "SplitToSequence": _split,
    "Identity": _identity,
}
