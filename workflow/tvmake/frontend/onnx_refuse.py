"""What cannot be imported faithfully is refused before the import, in one error that names everything."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import onnx

from tvmake.errors import InputError
from tvmake.frontend.onnx_graph import Graph, all_nodes, attributes
from tvmake.quick_tvm import tvm  # noqa: F401  TVM is imported this way everywhere

# After quick_tvm, which decides how TVM is loaded.
from tvm.relax.frontend.onnx.onnx_frontend import _get_convert_map  # isort: skip

CONTRIB_DOMAIN = "com.microsoft"
CONTRIB = frozenset({"FastGelu", "BiasGelu", "Gelu", "SkipLayerNormalization", "EmbedLayerNormalization", "Attention"})
"""ONNX Runtime's operators that TVM implements; compared with ONNX Runtime in tests/frontend/test_onnx_contrib.py."""

STANDARD = ("", "ai.onnx", "ai.onnx.preview")
MICROSOFT_ONLY = frozenset({"FastGelu", "BiasGelu", "SkipLayerNormalization", "EmbedLayerNormalization", "AllClassNMS"})


def supported_operators() -> frozenset[str]:
    """Operators of the standard domain that TVM's importer converts."""
    return frozenset(_get_convert_map()) | {"If"}


def check_domains(model: onnx.ModelProto, where: str) -> None:
    """Refuse operators of other domains: TVM's importer ignores the domain and takes any ``Relu`` for ONNX's.

    Raises:
        InputError: naming every foreign operator with its count.
    """
    foreign: Counter[str] = Counter()
    for node in all_nodes(model.graph):
        if node.domain in STANDARD or (node.domain == CONTRIB_DOMAIN and node.op_type in CONTRIB):
            continue
        foreign[f"{node.domain}::{node.op_type}"] += 1
    if foreign:
        raise InputError(
            where,
            f"{len(foreign)} {_plural('operator', foreign)} from outside ONNX cannot be imported: {_counted(foreign)}",
            "Export the model without custom operators.",
        )


def check_nodes(graph: Graph) -> None:
    """Refuse what is left after preparation and has no importer, or one that gives wrong numbers.

    Raises:
        InputError: naming every operator with its count, or every node with its reason.
    """
    supported = supported_operators()
    missing: Counter[str] = Counter()
    for node in all_nodes(graph.graph):
        standard = node.domain in STANDARD
        if standard and (node.op_type not in supported or node.op_type in MICROSOFT_ONLY | {"Attention"}):
            missing[node.op_type] += 1
    if missing:
        raise InputError(
            graph.where,
            f"{len(missing)} {_plural('operator', missing)} cannot be imported: {_counted(missing)}",
            _remedy(sorted(missing)),
        )
    reasons = []
    for node in all_nodes(graph.graph):
        check = CHECKS.get(node.op_type) if node.domain in STANDARD else None
        reason = check(node, graph) if check else None
        if reason:
            reasons.append(f"{node.op_type} {node.name!r}: {reason}")
    if reasons:
        shown = "; ".join(reasons[:5]) + (f"; and {len(reasons) - 5} more" if len(reasons) > 5 else "")
        raise InputError(
            graph.where, f"would give wrong results: {shown}", "Export the model without these (docs/import-onnx.md)."
        )


def _plural(word: str, items: Counter[str]) -> str:
    return word if len(items) == 1 else word + "s"


def _counted(items: Counter[str]) -> str:
    return ", ".join(f"{name} ({count}×)" for name, count in sorted(items.items()))


def _remedy(operators: list[str]) -> str:
    special = [REMEDIES[name] for name in operators if name in REMEDIES]
    return special[0] if special else "Export the model without them (docs/import-onnx.md)."


_FIXED_LENGTH = "Export with a fixed sequence length, or give it: `inputs: {<name>: {shape: […]}}`."
REMEDIES = {
    "LSTM": _FIXED_LENGTH,
    "GRU": _FIXED_LENGTH,
    "RNN": _FIXED_LENGTH,
    "Loop": "Loops can be imported when their trip count is a constant.",
    "Scan": _FIXED_LENGTH,
}

Check = Callable[[onnx.NodeProto, Graph], str | None]
CHECKS: dict[str, Check] = {}


def _value(node: onnx.NodeProto, name: str, default: Any) -> Any:
    return attributes(node).get(name, default)
