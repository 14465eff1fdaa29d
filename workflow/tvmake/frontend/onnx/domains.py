"""Operators from outside ONNX: those that TVM implements too; the refusal of all others, and of what nothing imports."""

from collections import Counter
from collections.abc import Callable

import onnx

from tvmake.errors import InputError
from tvmake.frontend.onnx.graph import Graph, all_nodes, depends_on_data

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


RANDOM = frozenset({
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial",
})  # fmt: skip
NEVER_IMPORTED = RANDOM | {
    "StringConcat", "StringSplit", "StringNormalizer", "RegexFullMatch", "TfIdfVectorizer", "ImageDecoder",
}  # fmt: skip
"""What neither TVM's importer nor preparation has anything for."""

_FIXED_LENGTH = "Export with a fixed sequence length, or give it: `inputs: {<name>: {shape: […]}}`."
_REMEDIES = {
    "LSTM": _FIXED_LENGTH,
    "GRU": _FIXED_LENGTH,
    "RNN": _FIXED_LENGTH,
    "Loop": "Loops can be imported when their trip count is a constant.",
    "Scan": _FIXED_LENGTH,
    **dict.fromkeys(sorted(RANDOM), "Leave random numbers out of the model, or make them an input."),
}


def refuse_operators(graph: onnx.GraphProto, where: str, is_missing: Callable[[onnx.NodeProto], bool]) -> None:
    """Refuse the standard operators that cannot be imported.

    Raises:
        InputError: naming every one with its count.
    """
    missing = Counter(node.op_type for node in all_nodes(graph) if node.domain in STANDARD and is_missing(node))
    if missing:
        special = [_REMEDIES[name] for name in sorted(missing) if name in _REMEDIES]
        raise InputError(
            where,
            f"{len(missing)} {plural('operator', missing)} cannot be imported: {counted(missing)}",
            special[0] if special else "Export the model without them (docs/guides/import-onnx.md).",
        )


_SHAPES_OF_DATA = {
    "NonZero": (0, "return the mask itself, or a fixed number of places with TopK"),
    "Compress": (1, "keep all elements, and return the mask beside them"),
    "Unique": (0, "return the values, and count them after the network has run"),
}
"""The input that decides how much the operator gives, and what to do instead. TVM computes them by Python functions, which no package
has."""


def refuse_shapes_of_data(graph: Graph) -> None:
    """Refuse tensors whose extents depend on an input's elements.

    Raises:
        InputError: naming the node that makes the first.
    """
    for node in graph.graph.node:
        decides, remedy = _SHAPES_OF_DATA.get(node.op_type, (None, ""))
        if decides is not None and node.domain in STANDARD and depends_on_data(node.input[decides], graph):
            what = f"{node.op_type} {node.name or node.output[0]!r}"
            raise InputError(graph.where, f"the shape that {what} gives depends on the data", remedy)


def plural(word: str, items: Counter[str]) -> str:
    """A word for one or several items."""
    return word if len(items) == 1 else word + "s"


def counted(items: Counter[str]) -> str:
    """Items with how often each occurs."""
    return ", ".join(f"{name} ({count}×)" for name, count in sorted(items.items()))
