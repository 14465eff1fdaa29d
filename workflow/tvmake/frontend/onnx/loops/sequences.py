"""Replace a sequence to which a loop appends one element in each iteration by rows of the loop's results.

PyTorch's exporter writes lists of scripted modules in this form. This module does not import TVM.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
from onnx import helper

from tvmake.errors import InputError
from tvmake.frontend.onnx.graph import Builder, Graph, all_nodes, attributes

FIRST_STATE = 2
"""Index of the first loop-carried value among a loop's inputs."""

FIXED_RANKS = "Export a model with fixed ranks."


def collect_rows(graph: Graph) -> int:
    """Replace the sequences of a graph's loops in place; returns their number. Others are unchanged."""
    replaced = 0
    for loop in [node for node in graph.graph.node if node.op_type == "Loop"]:
        for index in reversed(range(len(loop.input) - FIRST_STATE)):
            if (element := _appended_element(loop, index, graph)) is not None:
                _replace(loop, index, element, graph)
                replaced += 1
    if replaced:
        graph.refresh()
    return replaced


def _appended_element(loop: onnx.NodeProto, index: int, graph: Graph) -> str | None:
    """The element that the body appends to a loop-carried value; None if the value is anything but an empty sequence that grows so."""
    producers = {output: node for node in graph.graph.node for output in node.output}
    start, body = producers.get(loop.input[FIRST_STATE + index]), attributes(loop)["body"]
    sequence, result = body.input[FIRST_STATE + index].name, body.output[1 + index].name
    readers = [node for node in all_nodes(body) if sequence in node.input]
    if start is None or start.op_type != "SequenceEmpty" or len(readers) != 1 or index >= len(loop.output):
        return None
    (insert,) = readers
    is_appended = insert.op_type == "SequenceInsert" and not any(insert.input[2:]) and insert.output[0] == result
    uses = [node for node in all_nodes(graph.graph) if loop.output[index] in node.input]
    is_returned = loop.output[index] in {value.name for value in graph.graph.output}
    if (
        not is_appended
        or is_returned
        or insert not in list(body.node)
        or any(node.op_type not in USES for node in uses)
    ):
        return None
    return str(insert.input[1])


def _replace(loop: onnx.NodeProto, index: int, element: str, graph: Graph) -> None:
    body = next(attribute.g for attribute in loop.attribute if attribute.name == "body")
    sequence, result = body.input[FIRST_STATE + index].name, body.output[1 + index].name
    nodes = [node for node in body.node if sequence not in node.input]
    row = graph.fresh(f"{element}_row")
    nodes.append(helper.make_node("Identity", [element], [row]))
    outputs = [value for value in body.output if value.name != result]
    inputs = [value for value in body.input if value.name != sequence]
    del body.node[:], body.output[:], body.input[:]
    body.node.extend(nodes)
    body.input.extend(inputs)
    body.output.extend([*outputs, onnx.ValueInfoProto(name=row)])
    rows, name = graph.fresh(f"{loop.output[index]}_rows"), loop.output[index]
    while len(loop.output) < len(body.output) - 1:
        loop.output.append("")
    del loop.input[FIRST_STATE + index]
    results = [output for position, output in enumerate(loop.output) if position != index]
    loop.output[:] = [*results, rows]
    nodes = list(graph.graph.node)
    _set_nodes(graph, [node for node in nodes if name not in node.input])
    graph.refresh()  # infers the rank of the rows
    written: list[onnx.NodeProto] = []
    for number, node in enumerate(nodes):
        if name not in node.input:
            written.append(node)
            continue
        build = Builder(graph, f"{node.op_type}_{number}")
        value = USES[node.op_type](node, rows, build)
        written += [*build.nodes, helper.make_node("Identity", [value], [node.output[0]])]
    _set_nodes(graph, written)


def _set_nodes(graph: Graph, nodes: Sequence[onnx.NodeProto]) -> None:
    copies = []
    for node in nodes:
        copies.append(onnx.NodeProto())
        copies[-1].CopyFrom(node)
    del graph.graph.node[:]
    graph.graph.node.extend(copies)


def _concatenate(node: onnx.NodeProto, rows: str, build: Builder) -> str:
    values, rank = attributes(node), build.graph.rank(rows)
    axis, is_new = values["axis"], values.get("new_axis", 0)
    if rank is None:
        raise InputError(build.graph.where, f"the rank of the elements of {node.input[0]!r} is unknown", FIXED_RANKS)
    axis += (rank if is_new else rank - 1) if axis < 0 else 0
    order = list(range(1, rank))
    order.insert(axis, 0)
    moved = build.transpose(rows, order) if axis else rows
    if is_new:
        return moved
    shape = build.op("Shape", moved)
    count = build.op("ReduceProd", _part(build, shape, axis, axis + 2), keepdims=1)
    target = [_part(build, shape, 0, axis)] if axis else []
    return build.op("Reshape", moved, build.concat([*target, count, _part(build, shape, axis + 2, 1 << 30)], 0))


def _part(build: Builder, shape: str, start: int, stop: int) -> str:
    return build.slice(shape, 0, start, stop)


def _element(node: onnx.NodeProto, rows: str, build: Builder) -> str:
    return build.op("Gather", rows, node.input[1], axis=0)


def _length(node: onnx.NodeProto, rows: str, build: Builder) -> str:
    return build.op("Gather", build.op("Shape", rows), build.const(0, np.int64), axis=0)


USES: Mapping[str, Callable[[onnx.NodeProto, str, Builder], str]] = {
    "ConcatFromSequence": _concatenate,
    "SequenceAt": _element,
    "SequenceLength": _length,
}
"""Functions that compute an operator on the sequence from the rows, by the operator's name."""
