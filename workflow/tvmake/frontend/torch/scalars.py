"""Convert Python arithmetic on tensor elements and dynamic dimensions to arithmetic on tensors of rank 0.

``x * (1 / t.item() ** 2)`` and ``x / x.shape[0] ** 0.5`` appear in PyTorch's graph as Python arithmetic on symbols,
for which TVM has no operators. Few of TVM's operators accept a dimension as a number (``x.clamp(max=x.shape[0])``).
"""

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

from tvmake.frontend.torch.program import graphs

aten = torch.ops.aten

ARITHMETIC: dict[Callable[..., Any], torch._ops.OpOverload] = {
    operator.add: aten.add.Tensor, operator.sub: aten.sub.Tensor, operator.mul: aten.mul.Tensor,
    operator.truediv: aten.div.Tensor, operator.neg: aten.neg.default, operator.pow: aten.pow.Tensor_Tensor,
    operator.abs: aten.abs.default, abs: aten.abs.default, math.sqrt: aten.sqrt.default, torch.sym_max: aten.maximum.default,
    torch.sym_min: aten.minimum.default, torch.sym_float: aten._to_copy.default,
    torch._sym_sqrt: aten.sqrt.default, torch._sym_log2: aten.log2.default,
    torch._sym_sin: aten.sin.default, torch._sym_cos: aten.cos.default, torch._sym_tan: aten.tan.default,
    torch._sym_sinh: aten.sinh.default, torch._sym_cosh: aten.cosh.default, torch._sym_tanh: aten.tanh.default,
    torch._sym_asin: aten.asin.default, torch._sym_acos: aten.acos.default, torch._sym_atan: aten.atan.default,
}  # fmt: skip
"""Python functions of symbols, and the equivalent operators on tensors."""

TAKE_DIMENSIONS = (aten.arange.default, aten.arange.start, aten.arange.start_step, aten.full.default)
"""Operators for which TVM accepts dimensions as numbers."""

FILL_OPERATORS = (aten.full.default, aten.scalar_tensor.default)
"""Operators that fill a tensor with one number."""

OVERLOADS = {"Scalar": "Tensor", "Tensor_Scalar": "Tensor_Tensor"}
"""Overloads that take a number, and the equivalents that take a tensor."""


def compute_as_tensors(program: ExportedProgram) -> bool:
    """Convert arithmetic on numbers to arithmetic on tensors, in place.

    Returns:
        Whether the program has changed. The new nodes have no fake tensors.
    """
    changed = [_convert_graph(graph) for graph in graphs(program)]
    return any(changed)


def _convert_graph(graph: fx.Graph) -> bool:
    tensors: dict[fx.Node, fx.Node] = {}
    is_changed = False
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if node.target is aten._local_scalar_dense.default:
            tensors[node] = _item_tensor(graph, node)
            continue
        numbers = {
            dimension: _dimension_tensor(graph, dimension) for dimension in _dimensions_as_numbers(node)
        } | tensors
        if numbers.keys().isdisjoint(node.all_input_nodes):
            continue
        if node.target in ARITHMETIC:
            tensors[node] = _convert_arithmetic(graph, node, numbers)
        elif (replacement := _pass_tensors(graph, node, numbers)) is not None:
            node.replace_all_uses_with(replacement)
            is_changed = True
    graph.eliminate_dead_code()
    return is_changed


def _dimensions_as_numbers(node: fx.Node) -> list[fx.Node]:
    """The dynamic dimensions that a node reads as numbers, not as sizes or bounds of slices."""
    if node.target in ARITHMETIC:
        numbers = node.args if isinstance(node.meta.get("val"), torch.SymFloat) else ()
    elif isinstance(node.target, torch._ops.OpOverload) and node.target not in TAKE_DIMENSIONS:
        arguments = zip(node.args, node.target._schema.arguments, strict=False)
        numbers = [value for value, argument in arguments if _is_number(argument)]
    else:
        numbers = ()
    return [
        value for value in numbers if isinstance(value, fx.Node) and isinstance(value.meta.get("val"), torch.SymInt)
    ]


def _is_number(argument: torch.Argument) -> bool:
    kind = argument.type.getElementType() if isinstance(argument.type, torch.OptionalType) else argument.type
    return isinstance(kind, torch.NumberType | torch.TensorType)


def _dimension_tensor(graph: fx.Graph, dimension: fx.Node) -> fx.Node:
    """A tensor of rank 0 with a dimension as its value."""
    with graph.inserting_after(dimension):
        return graph.call_function(aten.full.default, ([], dimension), {"dtype": torch.int64})


def _item_tensor(graph: fx.Graph, node: fx.Node) -> fx.Node:
    dtype = node.args[0].meta["val"].dtype
    with graph.inserting_before(node):
        item = graph.call_function(aten.reshape.default, (node.args[0], []))
        if dtype.is_floating_point or dtype in (torch.bool, torch.int64):
            return item
        return graph.call_function(aten._to_copy.default, (item,), {"dtype": torch.int64})


def _convert_arithmetic(graph: fx.Graph, node: fx.Node, tensors: dict[fx.Node, fx.Node]) -> fx.Node:
    with graph.inserting_before(node):
        args = [_as_tensor(graph, operand, tensors) for operand in node.args]
        kwargs = {"dtype": torch.float32} if node.target is torch.sym_float else {}
        return graph.call_function(ARITHMETIC[node.target], tuple(args), kwargs)


def _as_tensor(graph: fx.Graph, value: Any, tensors: dict[fx.Node, fx.Node]) -> fx.Node:
    """A number as a tensor."""
    if isinstance(value, fx.Node):
        return tensors.get(value, value)
    dtype = torch.float32 if isinstance(value, float) else torch.int64
    return graph.call_function(aten.full.default, ([], value), {"dtype": dtype})


def _pass_tensors(graph: fx.Graph, node: fx.Node, tensors: dict[fx.Node, fx.Node]) -> fx.Node | None:
    """An operator with its numbers replaced by tensors; None if it accepts no tensors."""
    if not isinstance(node.target, torch._ops.OpOverload) or not isinstance(node.meta.get("val"), Tensor):
        return None
    with graph.inserting_before(node):
        if node.target in FILL_OPERATORS:
            value, size = (node.args[-1], node.args[0] if len(node.args) > 1 else [])
            if value not in tensors or any(extent in tensors for extent in size):
                return None
            dtype = node.meta["val"].dtype
            value = graph.call_function(aten._to_copy.default, (tensors[value],), {"dtype": dtype})
            return graph.call_function(aten.expand.default, (value, size))
        if node.target is aten.clamp.default:
            return _clamp_to_tensors(graph, node, tensors)
        overload = OVERLOADS.get(node.target._overloadname, node.target._overloadname)
        if overload not in node.target.overloadpacket.overloads():
            return None
        target = getattr(node.target.overloadpacket, overload)
        if any(
            operand in tensors and not isinstance(argument.type, torch.TensorType)
            for operand, argument in zip(node.args, target._schema.arguments, strict=False)
            if isinstance(operand, fx.Node)
        ):
            return None
        args = tuple(tensors.get(value, value) if isinstance(value, fx.Node) else value for value in node.args)
        return graph.call_function(target, args, node.kwargs)


def _clamp_to_tensors(graph: fx.Graph, node: fx.Node, tensors: dict[fx.Node, fx.Node]) -> fx.Node:
    clamped = node.args[0]
    for bound, target in zip(node.args[1:], (aten.maximum.default, aten.minimum.default), strict=False):
        if bound is not None:
            as_tensor = _as_tensor(graph, bound, tensors)
            dtype = node.meta["val"].dtype
            clamped = graph.call_function(
                target, (clamped, graph.call_function(aten._to_copy.default, (as_tensor,), {"dtype": dtype}))
            )
    return clamped
