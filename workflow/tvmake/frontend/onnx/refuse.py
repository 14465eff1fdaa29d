"""Refuse operators that cannot be imported faithfully, before the import, in one error that names all of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from tvm.relax.frontend.onnx.onnx_frontend import _get_convert_map

from tvmake.errors import InputError
from tvmake.frontend.onnx import recurrent
from tvmake.frontend.onnx.converters import CONVERTERS
from tvmake.frontend.onnx.domains import STANDARD, refuse_operators
from tvmake.frontend.onnx.dynamic import resize
from tvmake.frontend.onnx.fixed_operands import value_remedy
from tvmake.frontend.onnx.graph import Graph, attributes, fix_shapes, optional_input, subgraphs
from tvmake.frontend.onnx.narrow_types import NARROW
from tvmake.frontend.onnx.preparations import branch_graph
from tvmake.frontend.onnx.rewrites.ceil_mode import POOLS
from tvmake.frontend.onnx.rewrites.declared_shapes import REDUCTIONS
from tvmake.frontend.onnx.rewrites.resize import is_trusted
from tvmake.frontend.onnx.rewrites.sampling import MAX_TAPS

MICROSOFT_ONLY = frozenset({"FastGelu", "BiasGelu", "SkipLayerNormalization", "EmbedLayerNormalization", "AllClassNMS"})


def supported_operators() -> frozenset[str]:
    """Operators of ONNX's domain that TVM's importer or tvmake converts."""
    return frozenset(_get_convert_map()) | CONVERTERS.keys() | {"If", "Loop"}


def check_nodes(graph: Graph) -> None:
    """Refuse remaining operators without an importer, and those that the importer computes wrongly.

    Raises:
        InputError: names every operator with its count, or nodes with their reasons.
    """
    supported = supported_operators() - MICROSOFT_ONLY - {"Attention"}
    remedy = value_remedy(graph.graph)
    refuse_operators(graph.graph, graph.where, lambda node: node.op_type not in supported, remedy)
    reasons = _reasons(graph)
    if reasons:
        shown = "; ".join(reasons[:5]) + (f"; and {len(reasons) - 5} more" if len(reasons) > 5 else "")
        raise InputError(
            graph.where,
            f"cannot be imported faithfully: {shown}",
            remedy or "Export the model without these (docs/guides/import-onnx.md).",
        )


def _reasons(graph: Graph) -> list[str]:
    """Nodes with the reason to refuse them; loops and branches are checked as graphs of their own."""
    reasons: list[str] = []
    for node in graph.graph.node:
        if node.op_type == "Loop":
            body = attributes(node)["body"]
            reasons += _reasons(Graph(helper.make_model(body, opset_imports=graph.model.opset_import), graph.where))
        for branch in subgraphs(node) if node.op_type == "If" else ():
            reasons += _reasons(branch_graph(branch, graph))
        check = CHECKS.get(node.op_type) if node.domain in STANDARD else None
        reason = _check_element_types(node, graph) or (check(node, graph) if check else None)
        if reason:
            reasons.append(f"{node.op_type} {node.name!r}: {reason}")
    return reasons


Check = Callable[[onnx.NodeProto, Graph], str | None]


def _check_resize(node: onnx.NodeProto, graph: Graph) -> str | None:
    return None if is_trusted(node, graph) else resize.refusal(node, graph)


def _check_roi_align(node: onnx.NodeProto, graph: Graph) -> str | None:
    return "mode=max differs from ONNX in TVM" if _attribute(node, "mode", "avg") == "max" else None


def _check_dropout(node: onnx.NodeProto, graph: Graph) -> str | None:
    return "training mode is random; export in evaluation mode"


def _check_batch_normalization(node: onnx.NodeProto, graph: Graph) -> str | None:
    if _attribute(node, "training_mode", 0) or len([name for name in node.output if name]) > 1:
        return "training mode; export in evaluation mode"
    return "spatial=0" if _attribute(node, "spatial", 1) == 0 else None


def _check_expand(node: onnx.NodeProto, graph: Graph) -> str | None:
    shape = graph.shape(node.input[1])
    if graph.is_constant(node.input[1]) or (shape and isinstance(shape[0], int)):
        return None
    return "the rank of its result is known only at run time"


def _check_loop(node: onnx.NodeProto, graph: Graph) -> str | None:
    if all(graph.dtype(name) for name in node.input[2:]):
        return None
    return (
        "it carries a sequence, an optional or rows of another loop from one iteration to the next;"
        " only appending to an empty sequence can be imported"
    )


def _check_conv_transpose(node: onnx.NodeProto, graph: Graph) -> str | None:
    needs_sizes = _attribute(node, "output_shape", None)
    return f"output_shape needs inputs of fixed sizes: {fix_shapes(graph.graph)}" if needs_sizes else None


def _check_non_max_suppression(node: onnx.NodeProto, graph: Graph) -> str | None:
    for index, threshold in {3: "iou_threshold", 4: "score_threshold"}.items():
        name = optional_input(node, index)
        constant = graph.constant(name) if name else None
        if constant is not None:
            value = float(np.ravel(constant)[0])
            # A rule may have written the next larger number for 1.
            if np.isnan(value) or (index == 3 and not 0 <= value < 1.001):
                return f"its {threshold} is {value:g}, which ONNX Runtime refuses too"
    limit, shape = optional_input(node, 2), graph.shape(node.input[0])
    if not limit or graph.is_constant(limit) or (shape is not None and isinstance(shape[1], int)):
        return None
    return f"its limit depends on the data, which needs a fixed number of boxes: {fix_shapes(graph.graph)}"


def _check_normalization(node: onnx.NodeProto, graph: Graph) -> str | None:
    return "its statistics cannot be returned" if any(node.output[1:]) else None


def _check_is_inf(node: onnx.NodeProto, graph: Graph) -> str | None:
    if _attribute(node, "detect_negative", 1) and _attribute(node, "detect_positive", 1):
        return None
    return "detect_negative and detect_positive are ignored inside a branch"


def _check_modulo(node: onnx.NodeProto, graph: Graph) -> str | None:
    kind = graph.dtype(node.input[0])
    is_integer = kind and graph.numpy_dtype(node.input[0]).kind in "iu"
    return None if _attribute(node, "fmod", 0) or is_integer else "a float modulo inside a branch"


def _check_constant(index: int, meaning: str) -> Check:
    """A check that an operand is a constant, for operators that TVM's importer converts only then."""

    def check(node: onnx.NodeProto, graph: Graph) -> str | None:
        name = optional_input(node, index)
        return f"its {meaning} depend on the data" if name and not graph.is_constant(name) else None

    return check


def _check_top_k(node: onnx.NodeProto, graph: Graph) -> str | None:
    return "TVM does not sort uint64" if graph.dtype(node.input[0]) == TensorProto.UINT64 else None


def _check_reduction(node: onnx.NodeProto, graph: Graph) -> str | None:
    empty, result = 0 in (graph.shape(node.input[0]) or ()), graph.shape(node.output[0]) or ()
    return "reduces an empty tensor" if empty and 0 not in result else None


def _check_pool(node: onnx.NodeProto, graph: Graph) -> str | None:
    shape, values = graph.shape(node.input[0]), attributes(node)
    if node.op_type == "MaxPool" and any(node.output[1:]):
        if graph.static_shape(node.input[0]) is not None:
            return f"the indices of its maxima are supported only in windows of at most {MAX_TAPS} elements"
        return f"the indices of its maxima need fixed dimensions ({fix_shapes(graph.graph)})"
    if shape is None or not values.get("ceil_mode") or values.get("auto_pad", "NOTSET") != "NOTSET":
        return None
    rank = len(shape) - 2
    ones = [1] * rank
    strides, dilations = values.get("strides", ones), values.get("dilations", ones)
    pads = values.get("pads", [0] * 2 * rank)[rank:]
    for extent, size, stride, dilation, pad in zip(
        shape[2:], values["kernel_shape"], strides, dilations, pads, strict=True
    ):
        if not isinstance(extent, int) and pad + stride > (size - 1) * dilation + 1:
            return f"at some sizes its last window covers only padding (ceil_mode); fix them: {fix_shapes(graph.graph)}"
    return None


CHECKS: dict[str, Check] = {
    **dict.fromkeys(POOLS, _check_pool),
    "Resize": _check_resize,
    **dict.fromkeys(recurrent.CELLS, recurrent.refusal),
    "RoiAlign": _check_roi_align,
    "Dropout": _check_dropout,
    "BatchNormalization": _check_batch_normalization,
    "Expand": _check_expand,
    "ConvTranspose": _check_conv_transpose,
    "LayerNormalization": _check_normalization,
    "NonMaxSuppression": _check_non_max_suppression,
    "Loop": _check_loop,
    "MaxUnpool": _check_constant(2, "output's dimensions"),
    "Pad": _check_constant(3, "axes"),
    "TopK": _check_top_k,
    "IsInf": _check_is_inf,
    "Mod": _check_modulo,
    **dict.fromkeys(sorted(REDUCTIONS), _check_reduction),
}
"""By operator, a function that returns the reason to refuse a node that TVM would import; None to accept it."""

UNSUPPORTED = NARROW | {TensorProto.STRING, TensorProto.COMPLEX64, TensorProto.COMPLEX128}
"""Element types that TVM lacks or computes wrongly; narrow types remain here only where an operator computes with them."""


def _check_element_types(node: onnx.NodeProto, graph: Graph) -> str | None:
    for name in (*node.input, *node.output):
        if graph.dtype(name) in UNSUPPORTED:
            kind = TensorProto.DataType.Name(graph.dtype(name)).lower()
            return f"element type {kind} is not supported"
    return None


def _attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    return attributes(node).get(name, default)
