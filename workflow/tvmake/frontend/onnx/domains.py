"""Operators from outside ONNX: those that TVM implements too, and the refusal of all others."""

from collections import Counter

import onnx

from tvmake.errors import InputError
from tvmake.frontend.onnx.graph import all_nodes

CONTRIB_DOMAIN = "com.microsoft"
CONTRIB = frozenset({"FastGelu", "BiasGelu", "Gelu", "SkipLayerNormalization", "EmbedLayerNormalization", "Attention"})
"""ONNX Runtime's operators that TVM implements; compared with ONNX Runtime in tests/frontend/onnx/test_contrib.py."""

QUANTISED = frozenset({
    "QLinearAdd", "QLinearMul", "QLinearGlobalAveragePool", "QLinearAveragePool", "QLinearLeakyRelu", "QLinearSigmoid",
    "QLinearSoftmax", "QLinearConcat", "QGemm", "DynamicQuantizeMatMul", "MatMulIntegerToFloat", "QuantizeLinear",
    "DequantizeLinear",
})  # fmt: skip
"""Those that preparation replaces (``rewrites.contrib_quantized``)."""

STANDARD = ("", "ai.onnx", "ai.onnx.preview")

CLASSICAL = "ai.onnx.ml"
"""Trees, support vectors and encoders of tables, which scikit-learn's exporter writes."""

CLASSICAL_REMEDY = "tvmake compiles neural networks; ONNX Runtime runs classical models such as scikit-learn's"
CUSTOM_REMEDY = "Export the model without custom operators."


def check_domains(model: onnx.ModelProto, where: str, is_prepared: bool = False) -> None:
    """Refuse operators of other domains: TVM's importer ignores the domain and takes any ``Relu`` for ONNX's.

    Args:
        is_prepared: whether those that can be replaced have been.

    Raises:
        InputError: naming every foreign operator with its count.
    """
    admitted = CONTRIB if is_prepared else CONTRIB | QUANTISED
    foreign: Counter[str] = Counter()
    for node in all_nodes(model.graph):
        if node.domain in STANDARD or (node.domain == CONTRIB_DOMAIN and node.op_type in admitted):
            continue
        foreign[f"{node.domain}::{node.op_type}"] += 1
    if foreign:
        raise InputError(
            where,
            f"{len(foreign)} {plural('operator', foreign)} from outside ONNX cannot be imported: {counted(foreign)}",
            CLASSICAL_REMEDY if any(name.startswith(CLASSICAL) for name in foreign) else CUSTOM_REMEDY,
        )


def plural(word: str, items: Counter[str]) -> str:
    """A word for one or several items."""
    return word if len(items) == 1 else word + "s"


def counted(items: Counter[str]) -> str:
    """Items with how often each occurs."""
    return ", ".join(f"{name} ({count}×)" for name, count in sorted(items.items()))
