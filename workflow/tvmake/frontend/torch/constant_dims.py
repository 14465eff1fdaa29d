"""Dimensions that depend on parameters alone: of elements that a constant mask selects, or a constant tensor repeats.

PyTorch leaves them symbolic, like those that depend on the data. With the indices computed, it infers the dimensions by itself.
"""

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from tvmake.frontend.one_thread import one_thread
from tvmake.frontend.torch.constants import add_constant, computed, given_values, input_dependent
from tvmake.frontend.torch.program import operator_name

aten = torch.ops.aten


def resolve_constant_dims(program: ExportedProgram) -> bool:
    """Replace constant masks by the places that they choose, and other constants of open extents by their values, in place.

    Args:
        program: without operators that change tensors in place.

    Returns:
        Whether there were any; the shapes of what depends on them are still those of before.
    """
    opened = [
        node
        for node in program.graph.nodes
        if node.op == "call_function" and any(map(_is_open, (node, *node.all_input_nodes) if _puts(node) else (node,)))
    ]
    if not opened:
        return False
    dependent, values = input_dependent(program), given_values(program)
    is_changed = False
    for number, node in enumerate(opened):
        name = f"tvmake_places_{number}"
        with torch.no_grad(), one_thread():
            if operator_name(node) == "index" or _puts(node):
                is_changed |= _place(program, node, dependent, values, name)
            elif operator_name(node) == "masked_select" and node.args[1] not in dependent:
                _select(program, node, values, name)
                is_changed = True
            elif node not in dependent and isinstance(value := computed(node, values), Tensor):
                values[constant := add_constant(program, name, value, value)] = value
                node.replace_all_uses_with(constant)
                is_changed = True
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()
    return is_changed


def _puts(node: fx.Node) -> bool:
    return operator_name(node) == "index_put"


def _is_open(node: fx.Node) -> bool:
    tensors = [value for value in pytree.tree_leaves(node.meta.get("val")) if isinstance(value, Tensor)]
    return any(free_unbacked_symbols(value) for value in tensors)


def _select(program: ExportedProgram, node: fx.Node, values: dict[fx.Node, Tensor], name: str) -> None:
    """Look up the elements that a constant mask selects, of the tensor and the mask broadcast to each other."""
    data, mask = node.args
    shape = torch.broadcast_shapes(data.meta["val"].shape, mask.meta["val"].shape)
    places = computed(mask, values).expand(shape).flatten().nonzero().flatten()
    constant = add_constant(program, name, places, places)
    with program.graph.inserting_before(node):
        whole = program.graph.call_function(aten.expand.default, (data, list(shape)))
        flat = program.graph.call_function(aten.reshape.default, (whole, [-1]))
        node.replace_all_uses_with(program.graph.call_function(aten.index_select.default, (flat, 0, constant)))


def _place(
    program: ExportedProgram, node: fx.Node, dependent: set[fx.Node], values: dict[fx.Node, Tensor], name: str
) -> bool:
    """Index by places instead of constant masks; whether there were any."""
    indices, is_changed = [], False
    for axis, index in enumerate(node.args[1]):
        is_mask = isinstance(index, fx.Node) and index.meta["val"].dtype is torch.bool and index not in dependent
        if not is_mask:
            indices.append(index)
            continue
        is_changed = True
        for other, places in enumerate(computed(index, values).nonzero(as_tuple=True)):
            indices.append(add_constant(program, f"{name}_{axis}_{other}", places, places))
    node.update_arg(1, indices)
    return is_changed
