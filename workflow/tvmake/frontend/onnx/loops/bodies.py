"""Prepare loops for their import: every Scan becomes a Loop, and a body reads only its inputs and its own constants.

Values of the surrounding graph that a body reads become loop-carried values that it returns unchanged. This module does not import TVM.
"""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from tvmake.frontend.onnx.graph import Builder, Graph, Shape, all_nodes, attributes, subgraphs
from tvmake.frontend.onnx.loops.delays import write_as_windows
from tvmake.frontend.onnx.loops.sequences import FIRST_STATE, collect_rows

Prepare = Callable[[Graph], Counter[str]]
"""Applies all preparations to a body; returns the changes by name."""

OPERATORS = ("Loop", "Scan")


def prepare_loops(graph: Graph, prepare: Prepare) -> Counter[str]:
    """Prepare the loops of a graph in place; returns the changes by name."""
    changes: Counter[str] = Counter()
    if not any(node.op_type in OPERATORS for node in graph.graph.node):
        return changes
    nodes: list[onnx.NodeProto] = []
    for index, node in enumerate(graph.graph.node):
        if node.op_type != "Scan" or graph.opset < 9:
            nodes.append(node)
            continue
        build = Builder(graph, f"Scan_{index}")
        if not write_as_windows(node, build):
            write_as_loop(node, build)
        nodes += build.nodes
        changes["Scan"] += 1
    if changes:
        del graph.graph.node[:]
        graph.graph.node.extend(nodes)
        graph.refresh()
    changes["sequences"] += collect_rows(graph)
    for node in graph.graph.node:
        if node.op_type == "Loop":
            changes += _prepare_loop(node, graph, prepare)
    graph.refresh()
    return changes


def write_as_loop(node: onnx.NodeProto, build: Builder) -> None:
    """Build a Loop over positions, and nodes around it, that replace a Scan (from opset 9 on)."""
    graph, values = build.graph, attributes(node)
    body: onnx.GraphProto = values["body"]
    scans = values["num_scan_inputs"]
    first = len(node.input) - scans
    states, sequences = node.input[:first], node.input[first:]
    in_axes = values.get("scan_input_axes") or [0] * scans
    is_reversed = values.get("scan_input_directions") or [0] * scans
    outputs = len(body.output) - len(states)
    out_axes = values.get("scan_output_axes") or [0] * outputs
    is_output_reversed = values.get("scan_output_directions") or [0] * outputs
    count = build.squeeze(_length(build, sequences[0], in_axes[0]), [0])

    copy = onnx.GraphProto()
    copy.CopyFrom(body)
    iteration, condition, result = (graph.fresh(f"{build.prefix}_{name}") for name in ("at", "runs", "continues"))
    inner = Builder(graph, f"{build.prefix}_body")
    inner.nodes.append(helper.make_node("Identity", [condition], [result]))
    for name, value, axis, backwards in zip(sequences, body.input[len(states) :], in_axes, is_reversed, strict=True):
        at = iteration
        if backwards:
            at = inner.op("Sub", inner.op("Sub", count, inner.const(1, np.int64)), iteration)
        inner.nodes.append(helper.make_node("Gather", [name, at], [value.name], axis=axis))
    del copy.node[:], copy.input[:], copy.output[:]
    copy.node.extend([*inner.nodes, *body.node])
    copy.input.append(helper.make_tensor_value_info(iteration, TensorProto.INT64, []))
    copy.input.append(helper.make_tensor_value_info(condition, TensorProto.BOOL, []))
    copy.input.extend(body.input[: len(states)])
    copy.output.append(helper.make_tensor_value_info(result, TensorProto.BOOL, []))
    copy.output.extend(body.output)

    rows = [graph.fresh(f"{build.prefix}_rows") if name else "" for name in node.output[len(states) :]]
    outputs_of_loop = [*node.output[: len(states)], *rows]
    build.nodes.append(helper.make_node("Loop", [count, "", *states], outputs_of_loop, body=copy, name=node.name))
    for name, target, axis, backwards, value in zip(
        rows, node.output[len(states) :], out_axes, is_output_reversed, body.output[len(states) :], strict=True
    ):
        if not target:
            continue
        if backwards:
            name = build.slice(name, 0, -1, -(1 << 62), -1)
        if axis:
            # A body need not declare the shapes of its results.
            rank = graph.rank(target) or len(value.type.tensor_type.shape.dim) + 1
            order = list(range(1, rank))
            order.insert(axis % rank, 0)
            name = build.transpose(name, order)
        build.nodes.append(helper.make_node("Identity", [name], [target]))


def _length(build: Builder, name: str, axis: int) -> str:
    rank = build.graph.rank(name)
    start = axis if axis >= 0 or rank is None else axis + rank
    return build.slice(build.op("Shape", name), 0, start, start + 1)


def _prepare_loop(node: onnx.NodeProto, graph: Graph, prepare: Prepare) -> Counter[str]:
    body = _own_body(node, graph)
    names = node.input[FIRST_STATE:]
    shapes = [graph.shape(name) for name in names]
    while True:
        inner, changes = _prepare_body(body, node, graph, shapes, prepare)
        results = [inner.shape(value.name) for value in body.output[1 : 1 + len(names)]]
        general = [_common_shape(*pair) for pair in zip(shapes, results, strict=True)]
        if general == shapes:
            break
        shapes = general
    attribute = next(attribute for attribute in node.attribute if attribute.name == "body")
    attribute.g.CopyFrom(inner.finish().graph)
    for name, output, shape in zip(names, node.output, shapes, strict=False):
        if output and shape is not None and None not in shape:
            graph.same_shapes[output] = name
    return changes


def _common_shape(first: Shape | None, second: Shape | None) -> Shape | None:
    """A shape that has both, with None for dimensions that differ."""
    if first is None or second is None or len(first) != len(second):
        return None
    return tuple(dim if dim == other else None for dim, other in zip(first, second, strict=True))


def _prepare_body(
    body: onnx.GraphProto, node: onnx.NodeProto, graph: Graph, shapes: Sequence[Shape | None], prepare: Prepare
) -> tuple[Graph, Counter[str]]:
    """The body as a graph of its own, prepared for loop-carried values of these shapes."""
    names = node.input[FIRST_STATE:]
    inputs = [
        helper.make_tensor_value_info(body.input[0].name, TensorProto.INT64, []),
        helper.make_tensor_value_info(body.input[1].name, TensorProto.BOOL, []),
        *(
            helper.make_tensor_value_info(value.name, graph.dtype(name), shape)
            for value, name, shape in zip(body.input[FIRST_STATE:], names, shapes, strict=True)
        ),
    ]
    outputs = [onnx.ValueInfoProto(name=value.name) for value in body.output]
    alone = helper.make_graph(body.node, body.name or "body", inputs, outputs, body.initializer)
    inner = Graph(helper.make_model(alone, opset_imports=graph.model.opset_import), graph.where)
    return inner, prepare(inner)


def _own_body(node: onnx.NodeProto, graph: Graph) -> onnx.GraphProto:
    """A copy of the body with names of its own; the values that it reads from the outer graph become loop-carried values of the node."""
    body = onnx.GraphProto()
    body.CopyFrom(attributes(node)["body"])
    own = [value.name for value in body.input] + [tensor.name for tensor in body.initializer]
    own += [name for inner in body.node for name in inner.output if name]
    own_names = set(own) | {
        name for inner in body.node for nested in subgraphs(inner) for name in _defined_names(nested)
    }
    read = [name for inner in all_nodes(body) for name in inner.input]
    read += [value.name for inner in all_nodes(body) for nested in subgraphs(inner) for value in nested.output]
    read += [value.name for value in body.output]
    outer = list(dict.fromkeys(name for name in read if name and name not in own_names))
    fresh = {name: graph.fresh(name) for name in dict.fromkeys([*own, *outer])}
    _rename(body, fresh)
    while len(node.output) < len(node.input) - FIRST_STATE:
        node.output.append("")
    # Every value that a body returns needs a name of its own.
    for value in body.output:
        if value.name in {other.name for other in body.output if other is not value}:
            name = graph.fresh(value.name)
            body.node.append(helper.make_node("Identity", [value.name], [name]))
            value.name = name
    for name in outer:
        if name in graph.constants:
            constant = onnx.TensorProto()
            constant.CopyFrom(graph.constants[name])
            constant.name = fresh[name]
            body.initializer.append(constant)
            continue
        states = len(node.input) - FIRST_STATE
        rows = list(node.output[states:])
        del node.output[states:]
        node.output.extend([graph.fresh(f"{name}_unchanged"), *rows])
        node.input.append(name)
        body.input.append(onnx.ValueInfoProto(name=fresh[name]))
        returned = list(body.output)
        del body.output[:]
        body.output.extend([*returned[: 1 + states], onnx.ValueInfoProto(name=fresh[name]), *returned[1 + states :]])
    return body


def _defined_names(graph: onnx.GraphProto) -> set[str]:
    names = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        names |= {name for name in node.output if name}
        for body in subgraphs(node):
            names |= _defined_names(body)
    return names


def _rename(graph: onnx.GraphProto, names: dict[str, str]) -> None:
    for value in (*graph.input, *graph.output):
        value.name = names.get(value.name, value.name)
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for body in subgraphs(node):
            _rename(body, names)
