"""Prepare an ONNX model for TVM's importer, with exact rewrites only.

Operators that the importer lacks or converts wrongly are replaced by ONNX operators that it supports, in the order of
``preparations``. Remaining ones are refused.
"""

import math
from dataclasses import dataclass

import onnx
from onnx import helper

from tvmake.frontend.onnx.graph import all_nodes
from tvmake.frontend.onnx.preparations import prepare_all, standardize
from tvmake.frontend.onnx.refuse import check_nodes


@dataclass(frozen=True)
class Prepared:
    """A model that TVM's importer supports, and the number of rewrites by operator."""

    model: onnx.ModelProto
    changes: dict[str, int]


def prepare(model: onnx.ModelProto, where: str, opset: int | None = None) -> Prepared:
    """Rewrite the model in place until nothing changes, then refuse operators that cannot be imported faithfully.

    The same bytes in give the same bytes out: nothing depends on hash order.

    Raises:
        InputError: operators without an importer, with counts; attributes that would give wrong results.
    """
    graph = standardize(model, where, opset)
    changes = prepare_all(graph)
    name_nodes(graph.graph)
    check_nodes(graph)
    return Prepared(graph.finish(), {name: count for name, count in sorted(changes.items()) if count})


def inline_small(model: onnx.ModelProto) -> None:
    """Turn small initializers into Constant nodes.

    The importer finds axes, shapes and scales among constants, but not always among parameters.
    """
    small = [tensor for tensor in model.graph.initializer if _is_small(tensor)]
    if not small:
        return
    names = {tensor.name for tensor in small}
    nodes = [helper.make_node("Constant", [], [tensor.name], name=tensor.name, value=tensor) for tensor in small]
    nodes += list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    # Delete one by one: emptying and refilling the list would copy the large tensors.
    for index in reversed(range(len(model.graph.initializer))):
        if model.graph.initializer[index].name in names:
            del model.graph.initializer[index]


def _is_small(tensor: onnx.TensorProto) -> bool:
    elements = math.prod(tensor.dims)
    is_shape_like = tensor.data_type == onnx.TensorProto.INT64 and len(tensor.dims) <= 1 and elements <= 1024
    return elements <= 64 or is_shape_like


def name_nodes(graph: onnx.GraphProto) -> None:
    """Give every node a name for error messages."""
    for index, node in enumerate(all_nodes(graph)):
        if not node.name:
            node.name = f"{node.op_type}_{index}"
