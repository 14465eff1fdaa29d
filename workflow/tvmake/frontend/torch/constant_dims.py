"""Compute dimensions that depend on parameters only, as the number of elements that a constant mask selects.

PyTorch leaves them symbolic, like dimensions that depend on the data. It infers them once the indices are constants.
"""

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from tvmake.frontend.one_thread import one_thread
from tvmake.frontend.torch.constants import add_constant, constant_values, evaluate, input_dependent_nodes
from tvmake.frontend.torch.program import operator_name

aten = torch.ops.aten


def resolve_constant_dims(program: ExportedProgram) -> bool:
    """Replace constant masks by the positions that they select, and other constants of unknown shape by their values, in place.

    Args:
        program: without operators that change tensors in place.

    Returns:
        Whether the program has changed. The shapes of the dependent nodes are not updated.
    """
    unresolved = [
        node
        for node in program.graph.nodes
        if node.op == "call_function"
        and any(map(_has_data_dependent_shape, (node, *node.all_input_nodes) if _is_index_put(node) else (node,)))
    ]
    if not unresolved:
        return False
    dependent, values = input_dependent_nodes(program), constant_values(program)
    is_changed = False
    for number, node in enumerate(unresolved):
        name = f"tvmake_places_{number}"
        with torch.no_grad(), one_thread():
            if operator_name(node) == "index" or _is_index_put(node):
                is_changed |= _replace_masks(program, node, dependent, values, name)
            elif operator_name(node) == "masked_select" and node.args[1] not in dependent:
                _replace_masked_select(program, node, values, name)
                is_changed = True
            elif node not in dependent and isinstance(value := evaluate(node, values), Tensor):
                values[constant := add_constant(program, name, value, value)] = value
                node.replace_all_uses_with(constant)
                is_changed = True
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()
    return is_changed


def _is_index_put(node: fx.Node) -> bool:
    return operator_name(node) == "index_put"


def _has_data_dependent_shape(node: fx.Node) -> bool:
    tensors = [value for value in pytree.tree_leaves(node.meta.get("val")) if isinstance(value, Tensor)]
    return any(free_unbacked_symbols(value) for value in tensors)


def _replace_masked_select(program: ExportedProgram, node: fx.Node, values: dict[fx.Node, Tensor], name: str) -> None:
    """Replace ``masked_select`` with a constant mask by a lookup. The tensor and the mask are broadcast to each other."""
    data, mask = node.args
    shape = torch.broadcast_shapes(data.meta["val"].shape, mask.meta["val"].shape)
    positions = evaluate(mask, values).expand(shape).flatten().nonzero().flatten()
    constant = add_constant(program, name, positions, positions)
    with program.graph.inserting_before(node):
        expanded = program.graph.call_function(aten.expand.default, (data, list(shape)))
        flat = program.graph.call_function(aten.reshape.default, (expanded, [-1]))
        node.replace_all_uses_with(program.graph.call_function(aten.index_select.default, (flat, 0, constant)))


def _replace_masks(
    program: ExportedProgram, node: fx.Node, dependent: set[fx.Node], values: dict[fx.Node, Tensor], name: str
) -> bool:
    """Replace the constant masks of an index by positions; return whether it has any."""
    indices, is_changed = [], False
    for axis, index in enumerate(node.args[1]):
        is_mask = isinstance(index, fx.Node) and index.meta["val"].dtype is torch.bool and index not in dependent
        if not is_mask:
            indices.append(index)
            continue
        is_changed = True
        for mask_axis, positions in enumerate(evaluate(index, values).nonzero(as_tuple=True)):
            indices.append(add_constant(program, f"{name}_{axis}_{mask_axis}", positions, positions))
    node.update_arg(1, indices)
    return is_changed
