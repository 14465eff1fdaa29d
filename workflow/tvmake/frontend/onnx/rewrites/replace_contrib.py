"""The preparation that writes ONNX Runtime's operators (domain ``com.microsoft``) as ONNX's own."""

import math

import onnx
from onnx import helper

from tvmake.frontend.onnx.graph import Builder, Graph, opset_of
from tvmake.frontend.onnx.rewrites import declared_shapes
from tvmake.frontend.onnx.rewrites.fold import fold
from tvmake.frontend.onnx.rewrites.table import CONTRIB_REWRITES

DOMAIN = "com.microsoft"

MISPLACED = {"LayerNormalization": 17, "SimplifiedLayerNormalization": math.inf}
"""Operators that ONNX Runtime writes into ONNX's domain, and the opset since which they are ONNX's."""


def move_misplaced(model: onnx.ModelProto) -> int:
    """Put ONNX Runtime's operators that stand in ONNX's domain into ``com.microsoft``; returns how many."""
    moved = 0
    for node in model.graph.node:
        if node.domain in ("", "ai.onnx") and opset_of(model) < MISPLACED.get(node.op_type, 0):
            node.domain = DOMAIN
            moved += 1
    if moved and all(entry.domain != DOMAIN for entry in model.opset_import):
        model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return moved


def rewrite_contrib(graph: Graph) -> None:
    """Replace these operators; those of a form that has no replacement stay, to be refused.

    Types and shapes behind one are known only when it has been replaced, so that a chain of them takes several rounds; and some only
    when what computes them is folded.
    """
    while any(node.domain == DOMAIN for node in graph.graph.node) and (_replace_known(graph) or _settle_shapes(graph)):
        graph.refresh()


def _settle_shapes(graph: Graph) -> int:
    """Fold constants, and give reshapes what is known of their shapes; returns how many nodes that changed."""
    changed = fold(graph)
    for index, node in enumerate(graph.graph.node):
        build = Builder(graph, f"Reshape_{index}")
        outputs = declared_shapes.reshape(node, build) if node.op_type == "Reshape" and not node.domain else None
        if outputs and all(made.op_type == "Reshape" for made in build.nodes):
            [made] = build.nodes
            made.output[0] = node.output[0]
            node.CopyFrom(made)
            changed += 1
    return changed


def _replace_known(graph: Graph) -> int:
    """Replace the operators whose first input's type is known; returns how many."""
    nodes: list[onnx.NodeProto] = []
    changed = 0
    for index, node in enumerate(graph.graph.node):
        rule = CONTRIB_REWRITES.get(node.op_type) if node.domain == DOMAIN else None
        build = Builder(graph, f"{node.op_type}_{index}")
        outputs = rule(node, build) if rule and graph.dtype(node.input[0]) else None
        if outputs is None:
            nodes.append(node)
            continue
        changed += 1
        nodes.extend(build.nodes)
        nodes.extend(
            helper.make_node("Identity", [value], [name])
            for name, value in zip(node.output, outputs, strict=False)
            if name and value
        )
    if changed:
        del graph.graph.node[:]
        graph.graph.node.extend(nodes)
    return changed
