"""Refuse operators from outside ONNX without a replacement, and ONNX operators without an importer."""

from collections import Counter
from collections.abc import Callable

import onnx

from tvmake.errors import InputError
from tvmake.frontend.onnx.graph import all_nodes
from tvmake.frontend.onnx.rewrites.fold import RANDOM
from tvmake.frontend.onnx.rewrites.replace_contrib import CLASSICAL_DOMAIN, DOMAIN
from tvmake.frontend.onnx.rewrites.table import CLASSICAL_REWRITES, CONTRIB_REWRITES
from tvmake.frontend.options import CLASSICAL

STANDARD = ("", "ai.onnx", "ai.onnx.preview")

CLASSICAL_REMEDY = f"tvmake compiles neural networks: {CLASSICAL}, and ONNX Runtime runs this file unchanged"

BLOCKED = ("com.microsoft.nchwc", "com.ms.internal.nhwc")
BLOCKED_REMEDY = (
    "ONNX Runtime optimised this file for one processor; give the original model, or save it with"
    " graph_optimization_level = ORT_ENABLE_EXTENDED"
)
CONTRIB_REMEDY = "They are ONNX Runtime's own; give the model from before ONNX Runtime's tools changed it."
CUSTOM_REMEDY = "Export the model without custom operators."


def check_domains(model: onnx.ModelProto, where: str, is_prepared: bool = False) -> None:
    """Refuse operators of other domains: TVM's importer ignores the domain and converts any ``Relu`` as ONNX's.

    Args:
        is_prepared: whether operators with a replacement have been replaced.

    Raises:
        InputError: names every foreign operator with its count. Operators whose form has no replacement are named only if
            there are no foreign ones, because operators behind an unknown one are not replaced.
    """
    foreign: Counter[str] = Counter()
    unusual: Counter[str] = Counter()
    for node in all_nodes(model.graph):
        if node.domain not in STANDARD:
            is_known = node.op_type in {DOMAIN: CONTRIB_REWRITES, CLASSICAL_DOMAIN: CLASSICAL_REWRITES}.get(
                node.domain, ()
            )
            (unusual if is_known else foreign)[f"{node.domain}::{node.op_type}"] += 1
    if foreign:
        problem = (
            f"{len(foreign)} {plural('operator', foreign)} from outside ONNX cannot be imported: {counted(foreign)}"
        )
        raise InputError(where, problem, _remedy(foreign))
    if unusual and is_prepared:
        problem = f"ONNX Runtime's operators can be imported, but not in this form or in a branch: {counted(unusual)}"
        raise InputError(where, problem, CONTRIB_REMEDY)


def _remedy(foreign: Counter[str]) -> str:
    domains = {name.partition("::")[0] for name in foreign}
    if CLASSICAL_DOMAIN in domains:
        return CLASSICAL_REMEDY
    if domains & set(BLOCKED):
        return BLOCKED_REMEDY
    return CONTRIB_REMEDY if DOMAIN in domains else CUSTOM_REMEDY


NEVER_IMPORTED = RANDOM | {
    "StringConcat", "StringSplit", "StringNormalizer", "RegexFullMatch", "TfIdfVectorizer", "ImageDecoder",
}  # fmt: skip
"""Operators that neither TVM's importer nor the preparation supports."""

WITH_CONSTANTS = {"Col2Im", "DFT", "MelWeightMatrix", "STFT"}
"""Operators that can be imported if their settings are constants."""

_REMEDIES = {
    "Col2Im": "Export the model with constant shapes of the image and of the block.",
    "DFT": "Export the model with a constant axis, and a transformed dimension of fixed length.",
    "MelWeightMatrix": "Export the model with constants for all inputs of MelWeightMatrix.",
    "Scan": "Scan can be imported from opset 9 on: export the model with a newer opset.",
    "STFT": "Export the model with a constant step and length of the frames, and a constant window.",
    **dict.fromkeys(sorted(RANDOM), "Leave random numbers out of the model, or make them an input."),
}


def refuse_operators(
    graph: onnx.GraphProto, where: str, is_missing: Callable[[onnx.NodeProto], bool], remedy: str | None = None
) -> None:
    """Refuse the standard operators that cannot be imported.

    Args:
        is_missing: whether an operator has no importer.
        remedy: the remedy for operators that can be imported with constant operands.

    Raises:
        InputError: names each with its count.
    """
    missing = Counter(node.op_type for node in all_nodes(graph) if node.domain in STANDARD and is_missing(node))
    if missing:
        special = [_REMEDIES[name] for name in sorted(missing) if name in _REMEDIES]
        if remedy and missing.keys() <= WITH_CONSTANTS:
            special = [remedy]
        raise InputError(
            where,
            f"{len(missing)} {plural('operator', missing)} cannot be imported: {counted(missing)}",
            special[0] if special else "Export the model without them (docs/guides/import-onnx.md).",
        )


def plural(word: str, items: Counter[str]) -> str:
    """The word in the singular for one item, else in the plural."""
    return word if len(items) == 1 else word + "s"


def counted(items: Counter[str]) -> str:
    """Items with their counts, separated by commas."""
    return ", ".join(f"{name} ({count}×)" for name, count in sorted(items.items()))
