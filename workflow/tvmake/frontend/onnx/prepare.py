"""Prepare an ONNX model for TVM's importer, with exact rewrites only.

What the importer lacks or gets wrong is replaced by ONNX operators it has: constants are folded, functions expanded,
control flow of known course unrolled, operators rewritten by the tables in the modules beside this one.
What remains and cannot be trusted is refused (`onnx_refuse`).
"""

import math
from collections import Counter
from dataclasses import dataclass

import onnx
from onnx import helper

from tvmake.frontend.onnx.graph import Builder, Graph, all_nodes
from tvmake.frontend.onnx.opset import standardised
from tvmake.frontend.onnx.refuse import check_nodes
from tvmake.frontend.onnx.rewrites import control_flow, function_bodies, narrow
from tvmake.frontend.onnx.rewrites import operators as rewrite
from tvmake.frontend.onnx.rewrites.auto_pad import write_out_padding
from tvmake.frontend.onnx.rewrites.ceil_mode import round_down
from tvmake.frontend.onnx.rewrites.fold import drop_unused, fold
from tvmake.frontend.onnx.rewrites.sequences import resolve_sequences

MAX_ROUNDS = 60
"""Each round folds and rewrites once; nested functions and loops need several."""

RULES = {**control_flow.RULES, **rewrite.RULES}


@dataclass(frozen=True)
class Prepared:
    """A model that TVM's importer can take, and what was done to it: counts of rewrites by operator."""

    model: onnx.ModelProto
    changes: dict[str, int]


def prepare(model: onnx.ModelProto, where: str, opset: int | None = None) -> Prepared:
    """Rewrite the model until nothing changes, then refuse what cannot be imported faithfully.

    The model is changed in place. Same bytes in, same bytes out: nothing depends on hash order.

    Raises:
        InputError: operators without an importer, with counts; attributes that would give wrong numbers.
    """
    graph = standardised(model, where, opset)
    changes: Counter[str] = Counter()
    for _ in range(MAX_ROUNDS):
        drop_unused(graph)
        changes["padded pools"] += write_out_padding(graph)
        changes["rounded pools"] += round_down(graph)
        written_out = narrow.write_out(graph)
        changes["narrow types"] += written_out
        if written_out:
            graph.refresh()
        folded = fold(graph)
        changes["folded"] += folded
        rewritten = apply_rules(graph)
        rewritten["sequences"] += resolve_sequences(graph)
        changes.update(rewritten)
        if not (folded or written_out) and not any(rewritten.values()):
            break
        graph.refresh()
    drop_unused(graph)
    name_nodes(graph.graph)
    check_nodes(graph)
    return Prepared(graph.finish(), {name: count for name, count in sorted(changes.items()) if count})


def apply_rules(graph: Graph) -> Counter[str]:
    """Apply the first matching rule to every node; returns how often each operator was rewritten."""
    nodes: list[onnx.NodeProto] = []
    counts: Counter[str] = Counter()
    for index, node in enumerate(graph.graph.node):
        build = Builder(graph, f"{node.op_type}_{index}")
        outputs = _apply(node, build)
        if outputs is None:
            nodes.append(node)
            continue
        counts[node.op_type] += 1
        nodes.extend(build.nodes)
        for name, value in zip(node.output, outputs, strict=False):
            if name and value:
                nodes.append(helper.make_node("Identity", [value], [name]))
    if counts:
        del graph.graph.node[:]
        graph.graph.node.extend(nodes)
    return counts


def _apply(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    if node.domain not in function_bodies.DOMAINS:
        return None
    rule = RULES.get(node.op_type)
    outputs = rule(node, build) if rule else None
    if outputs is None and node.op_type in function_bodies.OPERATORS:
        build.nodes.clear()
        outputs = function_bodies.expand(node, build)
    return outputs


def inline_small(model: onnx.ModelProto) -> None:
    """Turn small initializers into Constant nodes.

    The importer looks for axes, shapes and scales among constants, and only sometimes among parameters.
    """
    small = [tensor for tensor in model.graph.initializer if _is_small(tensor)]
    if not small:
        return
    names = {tensor.name for tensor in small}
    nodes = [helper.make_node("Constant", [], [tensor.name], name=tensor.name, value=tensor) for tensor in small]
    nodes += list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    # Taken out one by one: emptying and refilling the list would copy the large ones.
    for index in reversed(range(len(model.graph.initializer))):
        if model.graph.initializer[index].name in names:
            del model.graph.initializer[index]


def _is_small(tensor: onnx.TensorProto) -> bool:
    elements = math.prod(tensor.dims)
    is_shape_like = tensor.data_type == onnx.TensorProto.INT64 and len(tensor.dims) <= 1 and elements <= 1024
    return elements <= 64 or is_shape_like


def name_nodes(graph: onnx.GraphProto) -> None:
    """Give every node a name: errors point at nodes by it."""
    for index, node in enumerate(all_nodes(graph)):
        if not node.name:
            node.name = f"{node.op_type}_{index}"
