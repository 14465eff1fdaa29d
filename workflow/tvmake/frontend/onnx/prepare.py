"""Prepare an ONNX model for TVM's importer, with exact rewrites only.

Operators that the importer lacks or gets wrong are replaced by ONNX operators that it has, in the order of ``preparations``.
What remains and cannot be trusted is refused.
"""

import math
from dataclasses import dataclass

import onnx
from onnx import helper

from tvmake.frontend.onnx.graph import all_nodes
from tvmake.frontend.onnx.preparations import repeat_rounds, standardize
from tvmake.frontend.onnx.refuse import check_nodes
from tvmake.frontend.onnx.rewrites.fold import drop_unused


@dataclass(frozen=True)
class Prepared:
    """A model that TVM's importer can take, and what was done to it: counts of rewrites by operator."""

    model: onnx.ModelProto
    changes: dict[str, int]


def prepare(model: onnx.ModelProto, where: str, opset: int | None = None) -> Prepared:
    """Rewrite the model until nothing changes, then refuse what cannot be imported faithfully.

    The model is changed in place. Same bytes in, same bytes out: nothing depends on hash order.

    Raises:
        InputError: operators without an importer, with counts; attributes that would give wrong numbers.
    """
    graph = standardize(model, where, opset)
    changes = repeat_rounds(graph)
    drop_unused(graph)
    name_nodes(graph.graph)
    check_nodes(graph)
    return Prepared(graph.finish(), {name: count for name, count in sorted(changes.items()) if count})


def inline_small(model: onnx.ModelProto) -> None:
    """Turn small initializers into Constant nodes.

    The importer looks for axes, shapes and scales among constants, and only sometimes among parameters.
    """
    small = [tensor for tensor in model.graph.initializer if _is_small(tensor)]
    if not small:
        return
    names = {tensor.name for tensor in small}
    nodes = [helper.make_node("Constant", [], [tensor.name], name=tensor.name, value=tensor) for tensor in small]
    nodes += list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    # Taken out one by one: emptying and refilling the list would copy the large ones.
    for index in reversed(range(len(model.graph.initializer))):
        if model.graph.initializer[index].name in names:
            del model.graph.initializer[index]


def _is_small(tensor: onnx.TensorProto) -> bool:
    elements = math.prod(tensor.dims)
    is_shape_like = tensor.data_type == onnx.TensorProto.INT64 and len(tensor.dims) <= 1 and elements <= 1024
    return elements <= 64 or is_shape_like


def name_nodes(graph: onnx.GraphProto) -> None:
    """Give every node a name: errors point at nodes by it."""
    for index, node in enumerate(all_nodes(graph)):
        if not node.name:
            node.name = f"{node.op_type}_{index}"
