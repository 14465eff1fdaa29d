"""Fold known values: constant subgraphs and shapes of tensors."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tvmake.frontend.onnx.graph import Graph, attributes, subgraphs

MAX_BYTES = 1 << 22
"""Largest size of a folded value, unless its inputs are larger."""

RANDOM = frozenset({
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial",
})  # fmt: skip
"""Operators that draw their values."""

_NOT_FOLDED = RANDOM | {
    "If", "Loop", "Scan", "Optional", "OptionalGetElement", "OptionalHasElement", "SequenceMap",
    "QuantizeLinear", "DequantizeLinear", "SequenceEmpty", "SequenceConstruct", "SequenceInsert", "SequenceErase",
    "SplitToSequence", "ImageDecoder",
}  # fmt: skip
"""Operators that are random or have non-tensor values; quantised constants stay quantised to keep packages small."""


def fold(graph: Graph) -> int:
    """Replace nodes of known value by initializers; returns the number of nodes.

    ONNX's reference implementation (``onnx.reference``) computes the values.
    """
    remaining: list[onnx.NodeProto] = []
    folded = 0
    for node in graph.graph.node:
        values = _evaluate(graph, node) or _evaluate_extents(graph, node)
        if values is None:
            remaining.append(node)
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
        graph.graph.node.extend(remaining)
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
        # The reference lacks an operator or a type; the importer may still support the node.
        return None
    values = dict(zip([name for name in node.output if name], results, strict=True))
    for name, value in values.items():
        declared = graph.dtype(name)
        if not isinstance(value, np.ndarray | np.generic) or value.dtype == object or value.nbytes > limit:
            return None
        if declared and helper.tensor_dtype_to_np_dtype(declared) != value.dtype:
            return None
    return {name: np.asarray(value) for name, value in values.items()}


def _evaluate_extents(graph: Graph, node: onnx.NodeProto) -> dict[str, np.ndarray] | None:
    """The value of a node that rearranges elements of shapes; if only part of it is known, record that in ``graph.extents``."""
    move = _MOVES.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    if node.op_type == "Shape" and (shape := graph.shape(node.input[0])) is not None:
        values = attributes(node)
        result: np.ndarray = np.array(shape, object)[slice(values.get("start", 0), values.get("end"))]
    elif move and any(name in graph.extents for name in node.input):
        operands = [graph.extents.get(name, graph.constant(name)) for name in node.input if name]
        if any(operand is None for operand in operands):
            return None
        try:
            result = np.asarray(move(attributes(node), *operands), object)
        except (IndexError, KeyError, TypeError, ValueError):
            return None  # not the rank or dtype of a shape
    else:
        return None
    if all(isinstance(extent, int | np.integer) for extent in result.reshape(-1)):
        return {node.output[0]: result.astype(np.int64)}
    graph.extents[node.output[0]] = result
    return None


def _slice(values: Mapping[str, Any], data: Any, starts: Any, ends: Any, axes: Any = (0,), steps: Any = (1,)) -> Any:
    return data[slice(int(starts[0]), int(ends[0]), int(steps[0]))]


_MOVES: Mapping[str, Callable[..., Any]] = {
    "Gather": lambda values, data, indices: data[np.asarray(indices, np.int64)],
    "Slice": _slice,
    "Concat": lambda values, *parts: np.concatenate(parts),
    "Unsqueeze": lambda values, data, axes=None: data.reshape(1),
    "Squeeze": lambda values, data, axes=None: data.reshape(()),
    "Cast": lambda values, data: {TensorProto.INT64: data}[values["to"]],
    "Identity": lambda values, data: data,
}
"""Operators that rearrange the elements of shapes."""


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
    used = []
    for node in reversed(graph.graph.node):
        if any(name in needed for name in node.output if name):
            used.append(node)
            needed |= _read_names(node)
    if len(used) < len(graph.graph.node):
        del graph.graph.node[:]
        graph.graph.node.extend(reversed(used))
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


def _read_names(node: onnx.NodeProto) -> set[str]:
    names = {name for name in node.input if name}
    for body in subgraphs(node):
        names |= {value.name for value in body.output}
        for inner in body.node:
            names |= _read_names(inner)
    return names
