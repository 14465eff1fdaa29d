"""Convert an ONNX model to one opset and inline its functions. This module does not import TVM."""

import re
from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper, inliner, version_converter

from tvmake.errors import InputError
from tvmake.frontend.onnx.graph import Graph, all_nodes, attributes

OLDEST_OPSET = 13
"""Older models are converted first: for many old forms TVM's importer has only the newest implementation."""


RESIZES = ("Upsample", "Resize")

_ASSERTION = re.compile(r"^/\S+:\d+: \w+: Assertion `.*?` failed: ")
"""The start of the converter's error messages."""


def inline_functions(graph: Graph) -> None:
    """Replace calls of the model's functions by the functions' bodies."""
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
    """Convert the model to ``opset``; without it, convert an older model to OLDEST_OPSET if possible.

    Raises:
        InputError: the requested conversion is not possible.
    """
    newest = onnx.defs.onnx_opset_version()
    if opset is not None and opset > newest:
        problem = f"there is no opset {opset}: this release of onnx knows opsets up to {newest}"
        raise InputError(graph.where, problem, f"name one from {OLDEST_OPSET} to {newest}, or leave `opset` out")
    target_opset = opset or max(graph.opset, OLDEST_OPSET)
    if target_opset == graph.opset:
        return
    if graph.opset < 7:
        _reshape_slopes(graph)
        _align_operands(graph)
    resized = {node.output[0]: node.op_type for node in all_nodes(graph.graph) if node.op_type in RESIZES}
    has_old_coordinates = graph.opset < 11
    # For IR versions before 4, the converter expects weights among the inputs; they were removed there.
    graph.model.ir_version = max(graph.model.ir_version, 8)
    try:
        converted = version_converter.convert_version(graph.model, target_opset)
    except (RuntimeError, ValueError, version_converter.ConvertError) as error:
        return _refuse_conversion(graph, target_opset, " ".join(str(error).split())[:300], opset, error)
    if [value.type for value in converted.graph.input] != [value.type for value in graph.graph.input]:
        # Some adapters (Scan 8 to 9) change the model's inputs.
        return _refuse_conversion(graph, target_opset, "its inputs would change", opset)
    graph.model.CopyFrom(converted)
    graph.refresh()
    if has_old_coordinates:
        _restore_coordinates(graph, resized)


def _restore_coordinates(graph: Graph, resized: Mapping[str, str]) -> None:
    """Give converted resizes the coordinates of opsets before 11, which the converter omits.

    The old operators divide an output's index by the scale. As in ONNX Runtime, "nearest" rounds down, and up if the tensor
    shrinks.

    Args:
        graph: after the conversion.
        resized: outputs of resizes, and their operators before the conversion.
    """
    for node in all_nodes(graph.graph):
        if node.op_type != "Resize" or node.output[0] not in resized:
            continue
        directions = _size_changes(graph, node) if resized[node.output[0]] == "Resize" else set()
        if attributes(node).get("mode") != "linear" and (directions is None or directions == {"grows", "shrinks"}):
            problem = f"the nearest values of '{node.output[0]}' are not determined by opset 10"
            raise InputError(graph.where, problem, "Export the model at opset 11 or later.")
        nearest = "ceil" if directions and "shrinks" in directions else "floor"
        coordinates = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": nearest}
        node.attribute.extend(helper.make_attribute(key, value) for key, value in coordinates.items())


def _size_changes(graph: Graph, node: onnx.NodeProto) -> set[str] | None:
    """Whether the dimensions that a resize changes grow or shrink; None if unknown."""
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
        # The importer supports the remaining old forms, or `refuse` names them.
        return
    raise InputError(
        graph.where,
        f"cannot be converted from opset {graph.opset} to {target_opset}: {_ASSERTION.sub('', reason)}",
        "Export the model at opset 13 or later." if opset is None else "Leave `opset` out, or choose another.",
    ) from error


def _reshape_slopes(graph: Graph) -> None:
    """Reshape the slopes of PRelu before opset 7 from [C] to [C, 1, …]: later opsets broadcast from the right."""
    for node in graph.graph.node:
        rank = graph.rank(node.input[0]) if node.op_type == "PRelu" else None
        slope = graph.constant(node.input[1]) if rank else None
        if rank and slope is not None and slope.size > 1:
            shaped = slope.reshape(-1, *[1] * (rank - 2))
            node.input[1] = graph.add_constant(shaped, node.input[1])


def _align_operands(graph: Graph) -> None:
    """Give the second operand of binary operators before opset 7, which align it at an axis, trailing dimensions of 1."""
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
            remaining = [attribute for attribute in node.attribute if attribute.name not in ("broadcast", "axis")]
            del node.attribute[:]
            node.attribute.extend(remaining)
        nodes.append(node)
    del graph.graph.node[:]
    graph.graph.node.extend(nodes)


def _broadcasts_by_attribute(graph: Graph) -> bool:
    """Whether a binary operator uses the broadcasting of opset 6 and before, which the importer ignores."""
    return any(attribute.name == "broadcast" for node in graph.graph.node for attribute in node.attribute)
