"""Replace ONNX Runtime's operators (domain ``com.microsoft``) by ONNX's own."""

import math
from collections.abc import Mapping

import onnx
from onnx import helper

from tvmake.frontend.onnx.graph import Builder, Graph, Rule, opset_of
from tvmake.frontend.onnx.rewrites import declared_shapes
from tvmake.frontend.onnx.rewrites.fold import fold
from tvmake.frontend.onnx.rewrites.table import CLASSICAL_REWRITES, CONTRIB_REWRITES

DOMAIN = "com.microsoft"
CLASSICAL_DOMAIN = "ai.onnx.ml"
"""Trees, support vectors and table encoders, written by scikit-learn's exporter."""

MISPLACED = {"LayerNormalization": 17, "SimplifiedLayerNormalization": math.inf}
"""Operators that ONNX Runtime writes into ONNX's domain, and the first opset in which they belong to ONNX."""


def move_misplaced(model: onnx.ModelProto) -> int:
    """Move ONNX Runtime's operators from ONNX's domain to ``com.microsoft``; returns the number of nodes."""
    moved = 0
    for node in model.graph.node:
        if node.domain in ("", "ai.onnx") and opset_of(model) < MISPLACED.get(node.op_type, 0):
            node.domain = DOMAIN
            moved += 1
    if moved and all(entry.domain != DOMAIN for entry in model.opset_import):
        model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return moved


def rewrite_contrib(graph: Graph) -> None:
    """Replace ONNX Runtime's operators; forms without a replacement stay and are refused later.

    Types and shapes after such an operator are known only once it is replaced, so a chain of them takes several rounds. Some shapes are
    known only after constants are folded.
    """
    while _replace_known(graph, CLASSICAL_REWRITES, CLASSICAL_DOMAIN):
        graph.refresh()
    while any(node.domain == DOMAIN for node in graph.graph.node) and (
        _replace_known(graph, CONTRIB_REWRITES) or _settle_shapes(graph)
    ):
        graph.refresh()


def _settle_shapes(graph: Graph) -> int:
    """Fold constants, and make known shapes of reshapes constant; returns the number of changed nodes."""
    changed = fold(graph)
    for index, node in enumerate(graph.graph.node):
        build = Builder(graph, f"Reshape_{index}")
        outputs = declared_shapes.reshape(node, build) if node.op_type == "Reshape" and not node.domain else None
        if outputs and all(new_node.op_type == "Reshape" for new_node in build.nodes):
            [new_node] = build.nodes
            new_node.output[0] = node.output[0]
            node.CopyFrom(new_node)
            changed += 1
    return changed


def _replace_known(graph: Graph, rules: Mapping[str, Rule], domain: str = DOMAIN) -> int:
    """Replace the operators whose first input has a known type; returns the number of nodes."""
    nodes: list[onnx.NodeProto] = []
    changed = 0
    for index, node in enumerate(graph.graph.node):
        rule = rules.get(node.op_type) if node.domain == domain else None
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
