"""Unroll loops of fixed length, and replace If by a branch if the condition is constant."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tvmake.frontend.onnx.graph import Builder, Graph, attributes, depends_on_data, subgraphs

MAX_ITERATIONS = 512
MAX_NODES = 20_000
"""A larger unrolled loop would take too long to compile."""

FIRST_STATE = 2
"""Index of the first loop-carried value among a body's inputs, after the iteration number and the condition."""


def instantiate(build: Builder, body: onnx.GraphProto, arguments: Sequence[str]) -> list[str]:
    """Copy a body's nodes for one execution; returns the names of its outputs.

    Every value of the body gets a new name; names of the outer graph are unchanged.
    """
    names = dict(zip([value.name for value in body.input], arguments, strict=True))
    for tensor in body.initializer:
        names[tensor.name] = build.graph.add_constant(onnx.numpy_helper.to_array(tensor), tensor.name)
    for node in body.node:
        for name in node.output:
            if name:
                names[name] = build.graph.fresh(name)
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        _rename(copy, names)
        build.nodes.append(copy)
    return [names.get(value.name, value.name) for value in body.output]


def _rename(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    node.input[:] = [names.get(name, name) for name in node.input]
    node.output[:] = [names.get(name, name) for name in node.output]
    for body in subgraphs(node):
        for inner in body.node:
            _rename(inner, names)
        for value in body.output:
            value.name = names.get(value.name, value.name)


def take_branch(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Replace an If with a constant condition by its branch, and a conditional Squeeze by a Squeeze."""
    condition = build.graph.constant(node.input[0])
    if condition is None and not _is_conditional_squeeze(node, build.graph):
        return None
    branch = attributes(node)["then_branch" if condition is None or bool(condition.reshape(-1)[0]) else "else_branch"]
    return instantiate(build, branch, [])


def _is_conditional_squeeze(node: onnx.NodeProto, graph: Graph) -> bool:
    """Whether an If removes an axis if it has one element, as PyTorch's exporter writes ``squeeze`` of a dynamic dimension.

    What follows needs one of the two ranks. The package checks that the axis has one element.
    """
    branches = [attributes(node)[name].node for name in ("then_branch", "else_branch")]
    operators = [[inner.op_type for inner in nodes if inner.op_type != "Constant"] for nodes in branches]
    return operators == [["Squeeze"], ["Identity"]] and not depends_on_data(node.input[0], graph)


def unroll_loop(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Replace a Loop whose number of iterations follows from constants by one copy of the body per iteration."""
    body: onnx.GraphProto = attributes(node)["body"]
    trips = build.graph.constant(node.input[0]) if node.input[0] else None
    start = build.graph.constant(node.input[1]) if len(node.input) > 1 and node.input[1] else np.array(True)
    if start is None or (node.input[0] and trips is None):
        return None
    limit = None if trips is None else int(trips.reshape(-1)[0])
    if not bool(start.reshape(-1)[0]):
        count: int | None = 0
    elif _condition_holds(body, build.graph):
        count = limit
    else:
        count = _iterations(node, body, build.graph, MAX_ITERATIONS + 1 if limit is None else limit)
    if count is None:
        return None
    carried = list(node.input[2:])
    scanned = len(body.output) - 1 - len(carried)
    if count > MAX_ITERATIONS or count * len(body.node) > MAX_NODES or (scanned and not count):
        return None
    rows: list[list[str]] = [[] for _ in range(scanned)]
    true = build.const(True, np.bool_)
    for iteration in range(count):
        outputs = instantiate(build, body, [build.const(iteration, np.int64), true, *carried])
        carried = outputs[1 : 1 + len(carried)]
        for row, name in zip(rows, outputs[1 + len(carried) :], strict=True):
            row.append(build.unsqueeze(name, [0]))
    return [*carried, *(build.concat(row, 0) for row in rows)]


def _iterations(node: onnx.NodeProto, body: onnx.GraphProto, graph: Graph, limit: int) -> int | None:
    """The number of iterations of a loop, by computing its condition from constants; None if it depends on other values."""
    producers = {output: inner for inner in body.node for output in inner.output}
    positions = {value.name: position for position, value in enumerate(body.input)}
    pending, needed, constants, names = [body.output[0].name], [], {}, set()
    states: list[int] = []  # input indices of the loop-carried values that the condition depends on
    while pending:
        name = pending.pop()
        if name in names or not name:
            continue
        names.add(name)
        if name in producers:
            if list(subgraphs(producers[name])):
                return None
            needed.append(producers[name])
            pending += producers[name].input
        elif (position := positions.get(name, 0)) >= FIRST_STATE:
            states.append(position)
            pending.append(body.output[position - 1].name)
        elif name not in positions:
            inside = next((tensor for tensor in body.initializer if tensor.name == name), None)
            value = graph.constant(name) if inside is None else onnx.numpy_helper.to_array(inside)
            if value is None:
                return None
            constants[name] = value
    values = [graph.constant(node.input[position]) for position in states]
    if any(value is None for value in values):
        return None
    results = [body.output[0].name, *(body.output[position - 1].name for position in states)]
    arguments = [body.input[position].name for position in (0, 1, *states)]
    step = helper.make_graph(
        [inner for inner in body.node if any(inner is needed_node for needed_node in needed)],
        "condition",
        [helper.make_empty_tensor_value_info(name) for name in arguments],
        [helper.make_empty_tensor_value_info(name) for name in results],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    run = ReferenceEvaluator(helper.make_model(step, opset_imports=graph.model.opset_import)).run
    for count in range(1, min(limit, MAX_ITERATIONS + 1) + 1):
        condition, *values = run(
            None, dict(zip(arguments, [np.array(count - 1), np.array(True), *values], strict=True))
        )
        if not bool(np.asarray(condition).reshape(-1)[0]):
            return count
    return limit


def _condition_holds(body: onnx.GraphProto, graph: Graph) -> bool:
    """Whether the body returns its condition input, or a constant true of the body or the outer graph, as its condition."""
    name = body.output[0].name
    producers = {output: node for node in body.node for output in node.output}
    while name in producers and producers[name].op_type in ("Identity", "Cast"):
        name = producers[name].input[0]
    if name == body.input[1].name:
        return True
    constants = {tensor.name: tensor for tensor in body.initializer}
    if name in producers:
        value = attributes(producers[name]).get("value") if producers[name].op_type == "Constant" else None
        return value is not None and bool(onnx.numpy_helper.to_array(value).all())
    known = onnx.numpy_helper.to_array(constants[name]) if name in constants else graph.constant(name)
    return known is not None and bool(known.all())


def unroll_scan(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Replace a Scan over a fixed dimension (from opset 9 on) by one copy of the body per step."""
    graph, values = build.graph, attributes(node)
    if graph.opset < 9:
        return None
    body: onnx.GraphProto = values["body"]
    scans = values["num_scan_inputs"]
    states, sequences = list(node.input[: len(node.input) - scans]), list(node.input[len(node.input) - scans :])
    in_axes = values.get("scan_input_axes") or [0] * scans
    in_reversed = values.get("scan_input_directions") or [0] * scans
    outputs = len(body.output) - len(states)
    out_axes = values.get("scan_output_axes") or [0] * outputs
    out_reversed = values.get("scan_output_directions") or [0] * outputs
    shapes = [graph.static_shape(name) for name in sequences]
    if any(shape is None for shape in shapes):
        return None
    count = shapes[0][in_axes[0]]  # type: ignore[index]
    if not 0 < count <= MAX_ITERATIONS or count * len(body.node) > MAX_NODES:
        return None
    rows: list[list[str]] = [[] for _ in range(outputs)]
    for step in range(count):
        elements = []
        for name, axis, backwards in zip(sequences, in_axes, in_reversed, strict=True):
            position = count - 1 - step if backwards else step
            elements.append(build.op("Gather", name, build.const(position, np.int64), axis=axis))
        results = instantiate(build, body, [*states, *elements])
        states = results[: len(states)]
        for row, name, axis in zip(rows, results[len(states) :], out_axes, strict=True):
            row.append(build.unsqueeze(name, [axis]))
    joined = [
        build.concat(row[::-1] if backwards else row, axis)
        for row, axis, backwards in zip(rows, out_axes, out_reversed, strict=True)
    ]
    return [*states, *joined]


RULES = {"If": take_branch, "Loop": unroll_loop, "Scan": unroll_scan}
