"""Fold what is already known: constant subgraphs, shapes of static values, branches that cannot be taken."""

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tvmake.frontend.onnx.graph import Graph, Shape, attributes, subgraphs

MAX_BYTES = 1 << 22
"""A folded value may not be larger than this, unless its inputs are."""

RANDOM = frozenset({
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial",
})  # fmt: skip
"""Operators that draw their values."""

_NOT_FOLDED = RANDOM | {
    "If", "Loop", "Scan", "Optional", "OptionalGetElement", "OptionalHasElement", "SequenceMap",
    "QuantizeLinear", "DequantizeLinear", "SequenceEmpty", "SequenceConstruct", "SequenceInsert", "SequenceErase",
    "SplitToSequence", "ImageDecoder",
}  # fmt: skip
"""Random, or with values that are no tensors; quantised constants stay quantised so that packages stay small."""


def fold(graph: Graph) -> int:
    """Replace nodes of known value by initializers; returns how many.

    Values come from ONNX's reference implementation (``onnx.reference``).
    """
    kept: list[onnx.NodeProto] = []
    folded = 0
    extents: dict[str, Shape] = {}
    for node in graph.graph.node:
        values = _evaluate(graph, node) or _part_of_shape(graph, node, extents)
        if values is None:
            kept.append(node)
            continue
        folded += 1
        for name, value in values.items():
            tensor = numpy_helper.from_array(value, name)
            graph.graph.initializer.append(tensor)
            graph.constants[name] = graph.graph.initializer[-1]
            graph.shapes[name] = tuple(tensor.dims)
            graph.dtypes[name] = tensor.data_type
    if folded:
        del graph.graph.node[:]
        graph.graph.node.extend(kept)
    return folded


def _evaluate(graph: Graph, node: onnx.NodeProto) -> dict[str, np.ndarray] | None:
    if node.domain not in ("", "ai.onnx") or node.op_type in _NOT_FOLDED or any(subgraphs(node)):
        return None
    if node.op_type in ("Shape", "Size"):
        return _known_shape(graph, node)
    if not all(name in graph.constants for name in node.input if name):
        return None
    if node.op_type == "Constant" and not {attribute.name for attribute in node.attribute} & _TENSOR_CONSTANTS:
        return None
    inputs = {name: numpy_helper.to_array(graph.constants[name]) for name in node.input if name}
    limit = max([MAX_BYTES, *(value.nbytes for value in inputs.values())])
    if node.op_type in ("ConstantOfShape", "Expand", "Tile") and _result_size(graph, node) > limit:
        return None
    single = helper.make_graph(
        [node],
        "fold",
        [
            helper.make_tensor_value_info(name, graph.constants[name].data_type, value.shape)
            for name, value in inputs.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in node.output if name],
    )
    model = helper.make_model(single, opset_imports=graph.model.opset_import, ir_version=graph.model.ir_version)
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(model).run(None, inputs)
    except (NotImplementedError, RuntimeError, TypeError, ValueError, IndexError, AttributeError, KeyError):
        # The reference lacks an operator or a type; the importer will say what it thinks of the node.
        return None
    values = dict(zip([name for name in node.output if name], results, strict=True))
    for name, value in values.items():
        declared = graph.dtype(name)
        if not isinstance(value, np.ndarray | np.generic) or value.dtype == object or value.nbytes > limit:
            return None
        if declared and helper.tensor_dtype_to_np_dtype(declared) != value.dtype:
            return None
    return {name: np.asarray(value) for name, value in values.items()}


def _part_of_shape(graph: Graph, node: onnx.NodeProto, extents: dict[str, Shape]) -> dict[str, np.ndarray] | None:
    """Extents that are known of a tensor that has others that are not.

    Args:
        graph: what is being folded.
        node: one of its nodes.
        extents: those of the tensors whose shapes were looked up by nodes before, by the names of what those gave.
    """
    if node.domain not in ("", "ai.onnx"):
        return None
    if node.op_type == "Shape" and (shape := graph.shape(node.input[0])) is not None:
        values = attributes(node)
        extents[node.output[0]] = shape[slice(values.get("start", 0), values.get("end"))]
    known = extents.get(node.input[0]) if node.input else None
    if known is None or node.op_type not in ("Gather", "Slice"):
        return None
    given = [graph.constant(name) for name in node.input[1:] if name]
    if any(value is None for value in given):
        return None
    places = np.arange(len(known))
    if node.op_type == "Gather":
        chosen = places[given[0]]
    else:
        starts, ends, *more = (value.tolist() for value in given if value is not None)
        chosen = places[slice(starts[0], ends[0], more[1][0] if len(more) > 1 else 1)]
    found = [known[place] for place in np.reshape(chosen, -1)]
    if not all(isinstance(extent, int) for extent in found):
        return None
    return {node.output[0]: np.array(found, np.int64).reshape(np.shape(chosen))}


_TENSOR_CONSTANTS = {"value", "value_float", "value_floats", "value_int", "value_ints"}


def _result_size(graph: Graph, node: onnx.NodeProto) -> float:
    shape = graph.static_shape(node.output[0])
    if shape is None:
        return float("inf")
    return (
        float(np.prod(shape, dtype=np.float64))
        * helper.tensor_dtype_to_np_dtype(graph.dtype(node.output[0]) or 1).itemsize
    )


def _known_shape(graph: Graph, node: onnx.NodeProto) -> dict[str, np.ndarray] | None:
    shape = graph.shape(node.input[0])
    if shape is None:
        return None
    if node.op_type == "Size":
        static = graph.static_shape(node.input[0])
        return None if static is None else {node.output[0]: np.array(int(np.prod(static)), np.int64)}
    values = attributes(node)
    part = shape[slice(values.get("start", 0), values.get("end"))]
    if not all(isinstance(dim, int) for dim in part):
        return None
    return {node.output[0]: np.array(part, np.int64).reshape(len(part))}


def drop_unused(graph: Graph) -> None:
    """Remove nodes and initializers that no output depends on."""
    needed = {value.name for value in graph.graph.output}
    kept = []
    for node in reversed(graph.graph.node):
        if any(name in needed for name in node.output if name):
            kept.append(node)
            needed |= _reads(node)
    if len(kept) < len(graph.graph.node):
        del graph.graph.node[:]
        graph.graph.node.extend(reversed(kept))
    tensors = [tensor for tensor in graph.graph.initializer if tensor.name in needed]
    if len(tensors) < len(graph.graph.initializer):
        del graph.graph.initializer[:]
        graph.graph.initializer.extend(tensors)
    unused = sorted(name for name in graph.large if name not in needed)
    for name in unused:
        del graph.large[name]
    if unused:
        inputs = [value for value in graph.graph.input if value.name not in unused]
        del graph.graph.input[:]
        graph.graph.input.extend(inputs)


def _reads(node: onnx.NodeProto) -> set[str]:
    names = {name for name in node.input if name}
    for body in subgraphs(node):
        names |= {value.name for value in body.output}
        for inner in body.node:
            names |= _reads(inner)
    return names
