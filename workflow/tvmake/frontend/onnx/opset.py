"""Convert an ONNX model to one opset and inline its own functions. Nothing here imports TVM."""

import re
from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper, inliner, version_converter

from tvmake.errors import InputError
from tvmake.frontend.onnx.graph import Graph, all_nodes, attributes

OLDEST_OPSET = 13
"""Older models are converted first: TVM's importer has one implementation, the newest, for many older forms."""


RESIZES = ("Upsample", "Resize")

_ASSERTION = re.compile(r"^/\S+:\d+: \w+: Assertion `.*?` failed: ")
"""How the converter's complaints begin."""


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


def convert_opset(graph: Graph, opset: int | None) -> None:
    """Convert the model to ``opset``, or an old one to OLDEST_OPSET when the converter can.

    Raises:
        InputError: the conversion that was asked for is not possible.
    """
    newest = onnx.defs.onnx_opset_version()
    if opset is not None and opset > newest:
        problem = f"there is no opset {opset}: this release of onnx knows opsets up to {newest}"
        raise InputError(graph.where, problem, f"name one from {OLDEST_OPSET} to {newest}, or leave `opset` out")
    target_opset = opset or max(graph.opset, OLDEST_OPSET)
    if target_opset == graph.opset:
        return
    if graph.opset < 7:
        _slopes_per_channel(graph)
        _broadcast_from_the_right(graph)
    resized = {node.output[0]: node.op_type for node in all_nodes(graph.graph) if node.op_type in RESIZES}
    has_old_places = graph.opset < 11
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
    if has_old_places:
        _keep_places(graph, resized)


def _keep_places(graph: Graph, resized: Mapping[str, str]) -> None:
    """Let resizes take values from where those before opset 11 did, which the converter forgets.

    These divide places by the scale; the nearest one is the one before, and where the tensor shrinks the one behind, as
    ONNX Runtime has it.

    Args:
        graph: after the conversion.
        resized: the outputs of resizes, and the operators that they were.
    """
    for node in all_nodes(graph.graph):
        if node.op_type != "Resize" or node.output[0] not in resized:
            continue
        given = attributes(node)
        steps = _steps(graph, node) if resized[node.output[0]] == "Resize" else set()
        if given.get("mode") != "linear" and (steps is None or steps == {"grows", "shrinks"}):
            problem = f"the nearest values of '{node.output[0]}' are not determined by opset 10"
            raise InputError(graph.where, problem, "Export the model at opset 11 or later.")
        nearest = "ceil" if steps and "shrinks" in steps else "floor"
        made = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": nearest}
        node.attribute.extend(helper.make_attribute(key, value) for key, value in made.items())


def _steps(graph: Graph, node: onnx.NodeProto) -> set[str] | None:
    """What becomes of the extents that a resize changes; None where that is not known."""
    scales = graph.constant(node.input[2])
    if scales is None:
        before, after = (graph.static_shape(name) for name in (node.input[0], node.output[0]))
        if before is None or after is None:
            return None
        scales = np.divide(np.array(after, float), np.array(before, float))
    return {"grows" if scale > 1 else "shrinks" for scale in scales.tolist() if scale != 1}


def _refuse_conversion(
    graph: Graph, target_opset: int, reason: str, opset: int | None, error: Exception | None = None
) -> None:
    if opset is None and not _broadcasts_by_attribute(graph):
        # What is left of old forms the importer knows, or `refuse` names.
        return
    raise InputError(
        graph.where,
        f"cannot be converted from opset {graph.opset} to {target_opset}: {_ASSERTION.sub('', reason)}",
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
