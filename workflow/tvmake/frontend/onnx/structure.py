"""Refuse an ONNX model with an impossible structure before any tool traverses it."""

from collections.abc import Iterable, Iterator

import onnx
from onnx.external_data_helper import uses_external_data

from tvmake.errors import InputError

LONGEST_NAME = 4096
"""In bytes. Names become variables, keys and parts of messages; exporters write some hundred bytes at most."""

MOST_AXES = 32
MOST_ELEMENTS = 1 << 48
MOST_NODES = 200_000
"""With all calls of functions expanded. The largest networks have some ten thousand."""

MOST_DEPTH = 24
"""Nesting depth of bodies, and of calls of functions."""

_REMEDY = "Export the model again."

Key = tuple[str, str, str]


def check_structure(model: onnx.ModelProto, where: str) -> None:
    """Check that names are text, shapes are possible and functions are not recursive.

    Raises:
        InputError: one of these checks fails.
    """
    try:
        _check_names((model.producer_name, model.producer_version, *(entry.domain for entry in model.opset_import)))
        for function in model.functions:
            _check_names((function.name, function.domain, *function.input, *function.output))
            _check_nodes(function.node, 0)
        _check_graph(model.graph, 0)
        _check_size(model)
    except _ImpossibleError as error:
        raise InputError(where, str(error), _REMEDY) from None


class _ImpossibleError(Exception):
    """An impossible property of a model."""


def _check_graph(graph: onnx.GraphProto, depth: int) -> None:
    if depth > MOST_DEPTH:
        raise _ImpossibleError(f"has graphs in graphs, more than {MOST_DEPTH} deep")
    for tensor in graph.initializer:
        _check_tensor(tensor)
    for sparse in graph.sparse_initializer:
        _check_tensor(sparse.values)
        _check_tensor(sparse.indices)
        _check_dims(sparse.values.name, sparse.dims)
    for value in (*graph.input, *graph.output, *graph.value_info):
        _check_names((value.name,))
        _check_type(value.name, value.type)
    _check_nodes(graph.node, depth)


def _check_nodes(nodes: Iterable[onnx.NodeProto], depth: int) -> None:
    for node in nodes:
        _check_names((node.name, node.op_type, node.domain, *node.input, *node.output))
        for attribute in node.attribute:
            _check_names((attribute.name, attribute.ref_attr_name))
            if attribute.HasField("t"):
                _check_tensor(attribute.t)
            for tensor in attribute.tensors:
                _check_tensor(tensor)
            for graph in _graphs(attribute):
                _check_graph(graph, depth + 1)


def _graphs(attribute: onnx.AttributeProto) -> Iterator[onnx.GraphProto]:
    if attribute.HasField("g"):
        yield attribute.g
    yield from attribute.graphs


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        # protobuf returns invalid text as bytes.
        if not isinstance(name, str):
            raise _ImpossibleError(f"has a name that is not UTF-8 text ({name[:40]!r})")
        if len(name) > LONGEST_NAME:
            raise _ImpossibleError(f"has a name of {len(name)} letters ({name[:40]!r}…)")


def _check_tensor(tensor: onnx.TensorProto) -> None:
    _check_names((tensor.name,))
    _check_dims(tensor.name, tensor.dims)
    if not uses_external_data(tensor):
        return
    for entry in tensor.external_data:
        _check_names((entry.key, entry.value))
        is_number = entry.value.isascii() and entry.value.isdecimal() and len(entry.value) < 19
        if entry.key in ("offset", "length") and not is_number:
            raise _ImpossibleError(f"the {entry.key} of {tensor.name!r} in its data file is {entry.value[:40]!r}")


def _check_type(name: str, kind: onnx.TypeProto) -> None:
    shape = kind.tensor_type.shape
    _check_dims(name, [dim.dim_value for dim in shape.dim if dim.HasField("dim_value")], len(shape.dim))
    _check_names(dim.dim_param for dim in shape.dim)


def _check_dims(name: str, dims: Iterable[int], axes: int | None = None) -> None:
    extents = list(dims)
    axes = len(extents) if axes is None else axes
    if axes > MOST_AXES:
        raise _ImpossibleError(f"{name!r} has {axes} axes; at most {MOST_AXES} can be handled")
    elements = 1
    for extent in extents:
        # Some exporters write -1 for a dynamic dimension.
        elements *= max(extent, 1)
        if extent < -1 or elements > MOST_ELEMENTS:
            raise _ImpossibleError(f"{name!r} has an impossible shape")


def _check_size(model: onnx.ModelProto) -> None:
    """Count the nodes of expanded functions before expanding them: calls can double with every level of nesting."""
    bodies: dict[Key, onnx.FunctionProto] = {}
    for function in model.functions:
        bodies[function.domain, function.name, function.overload] = function
    sizes: dict[Key, int] = {}
    if len(bodies) < len(model.functions):
        raise _ImpossibleError("defines a function twice")

    def size(nodes: Iterable[onnx.NodeProto], depth: int) -> int:
        if depth > MOST_DEPTH:
            raise _ImpossibleError(f"has functions that call each other more than {MOST_DEPTH} deep")
        total = 0
        for node in nodes:
            key = (node.domain, node.op_type, node.overload)
            if key not in bodies:
                total += 1
            else:
                if key not in sizes:
                    sizes[key] = size(bodies[key].node, depth + 1)
                total += sizes[key]
            for attribute in node.attribute:
                total += sum(size(graph.node, depth + 1) for graph in _graphs(attribute))
            if total > MOST_NODES:
                raise _ImpossibleError(f"has more than {MOST_NODES} nodes once its functions are expanded")
        return total

    size(model.graph.node, 0)
