"""Prepare an ONNX model for TVM's importer, with exact rewrites only.

What the importer lacks or gets wrong is replaced by ONNX operators it has: constants are folded, functions expanded,
control flow of known course unrolled, operators rewritten by the tables in the modules beside this one.
What remains and cannot be trusted is refused (`onnx_refuse`).
"""

import math
from collections import Counter
from dataclasses import dataclass

import onnx
from onnx import helper, inliner, version_converter

from tvmake.errors import InputError
from tvmake.frontend.onnx.domains import check_domains
from tvmake.frontend.onnx.graph import Builder, Graph, all_nodes, attributes, opset_of
from tvmake.frontend.onnx.refuse import check_nodes
from tvmake.frontend.onnx.rewrites import control_flow, expand, narrow
from tvmake.frontend.onnx.rewrites import operators as rewrite
from tvmake.frontend.onnx.rewrites.contrib_quantized import rewrite_contrib
from tvmake.frontend.onnx.rewrites.fold import drop_unused, fold
from tvmake.frontend.onnx.rewrites.rounded_pools import round_down
from tvmake.frontend.onnx.rewrites.sequences import resolve_sequences

OLDEST_OPSET = 13
"""Older models are converted first: TVM's importer has one implementation, the newest, for many older forms."""

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
    graph = Graph(model, where)
    inline_functions(graph)
    rewrite_contrib(graph)
    check_domains(graph.model, where, is_prepared=True)
    convert(graph, opset)
    changes: Counter[str] = Counter()
    for _ in range(MAX_ROUNDS):
        drop_unused(graph)
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


def inline_functions(graph: Graph) -> None:
    """Replace calls of the model's own functions by their bodies."""
    if not graph.model.functions:
        return
    try:
        inlined = inliner.inline_local_functions(graph.model, convert_version=True)
    except (RuntimeError, ValueError) as error:
        line = " ".join(str(error).split())[:300]
        problem = f"a function of the model cannot be inlined: {line}"
        raise InputError(graph.where, problem, "Export it without functions.") from error
    graph.model.CopyFrom(inlined)
    graph.refresh()


def convert(graph: Graph, opset: int | None) -> None:
    """Convert the model to ``opset``, or an old one to OLDEST_OPSET when the converter can.

    Raises:
        InputError: the conversion that was asked for is not possible.
    """
    target_opset = opset or max(graph.opset, OLDEST_OPSET)
    if target_opset == graph.opset:
        return
    if graph.opset < 7:
        _slopes_per_channel(graph)
        _broadcast_from_the_right(graph)
    # The converter wants the weights of IR versions before 4 among the inputs, where they no longer are.
    graph.model.ir_version = max(graph.model.ir_version, 8)
    try:
        converted = version_converter.convert_version(graph.model, target_opset)
    except (RuntimeError, ValueError, version_converter.ConvertError) as error:
        return _refuse_conversion(graph, target_opset, " ".join(str(error).split())[:300], opset, error)
    if [value.type for value in converted.graph.input] != [value.type for value in graph.graph.input]:
        # Some adapters (Scan 8 to 9) change what the model takes.
        return _refuse_conversion(graph, target_opset, "its inputs would change", opset)
    graph.model.CopyFrom(converted)
    graph.refresh()


def _refuse_conversion(
    graph: Graph, target_opset: int, reason: str, opset: int | None, error: Exception | None = None
) -> None:
    if opset is None and not _broadcasts_by_attribute(graph):
        # What is left of old forms the importer knows, or `onnx_refuse` names.
        return
    raise InputError(
        graph.where,
        f"cannot be converted from opset {graph.opset} to {target_opset}: {reason}",
        "Export the model at opset 13 or later." if opset is None else "Leave `opset` out, or choose another.",
    ) from error


def _slopes_per_channel(graph: Graph) -> None:
    """PRelu before opset 7 has one slope per channel, [C]; later ones broadcast it from the right: make it [C, 1, …]."""
    for node in graph.graph.node:
        rank = graph.rank(node.input[0]) if node.op_type == "PRelu" else None
        slope = graph.constant(node.input[1]) if rank else None
        if rank and slope is not None and slope.size > 1:
            shaped = slope.reshape(-1, *[1] * (rank - 2))
            node.input[1] = graph.add_constant(shaped, node.input[1])


def _broadcast_from_the_right(graph: Graph) -> None:
    """Binary operators before opset 7 align the second operand at an axis: give it trailing extents of 1 instead."""
    nodes: list[onnx.NodeProto] = []
    for node in graph.graph.node:
        values = attributes(node)
        first, second = (graph.rank(name) for name in node.input[:2]) if "broadcast" in values else (None, None)
        if first is not None and second is not None:
            axis = values.get("axis", first - second)
            trailing = first - (axis + first if axis < 0 else axis) - second
            if trailing > 0 and values["broadcast"]:
                name = graph.fresh(f"{node.input[1]}_aligned")
                axes = list(range(second, second + trailing))
                nodes.append(helper.make_node("Unsqueeze", [node.input[1]], [name], axes=axes))
                node.input[1] = name
            kept = [attribute for attribute in node.attribute if attribute.name not in ("broadcast", "axis")]
            del node.attribute[:]
            node.attribute.extend(kept)
        nodes.append(node)
    del graph.graph.node[:]
    graph.graph.node.extend(nodes)


def _broadcasts_by_attribute(graph: Graph) -> bool:
    """Whether a binary operator uses the broadcasting of opset 6 and before, which the importer overlooks."""
    return any(attribute.name == "broadcast" for node in graph.graph.node for attribute in node.attribute)


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
    if node.domain not in expand.DOMAINS:
        return None
    rule = RULES.get(node.op_type)
    outputs = rule(node, build) if rule else None
    if outputs is None and node.op_type in expand.OPERATORS:
        build.nodes.clear()
        outputs = expand.expand(node, build)
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


__all__ = ["Prepared", "opset_of", "prepare"]
