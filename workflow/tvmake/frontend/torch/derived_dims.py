"""Replace input dimensions that are arithmetic on other symbols (``8*s0``, as in a U-Net) by new symbols.

Relax learns a symbol's value only if the symbol alone is a dimension. Such a program is exported again with a symbol
for each dimension; its operators then determine which multiples it accepts.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch.export import Dim, ExportedProgram
from torch.utils import _pytree as pytree

from tvmake.frontend.options import InputSpec
from tvmake.frontend.torch import program as exported


def derived_axes(program: ExportedProgram) -> list[tuple[str, int]]:
    """Names and axes of inputs whose sizes are arithmetic on symbols that are not dimensions themselves."""
    sizes = [
        (node.name, axis, size.node.expr)
        for node in exported.input_nodes(program)
        for axis, size in enumerate(node.meta["val"].shape)
        if isinstance(size, torch.SymInt)
    ]
    dimensions = {expression for _, _, expression in sizes if expression.is_Symbol}
    return [(name, axis) for name, axis, expression in sizes if not expression.free_symbols <= dimensions]


def replace_derived_dims(program: ExportedProgram, entries: Mapping[str, InputSpec]) -> ExportedProgram:
    """Export a program again with a symbol for each derived dimension, unless ``inputs:`` fixes one of them."""
    axes = derived_axes(program)
    shapes = {name: entry.shape for name, entry in entries.items() if entry.shape is not None}
    if not axes or any(isinstance(shapes.get(name, [None] * (axis + 1))[axis], int) for name, axis in axes):
        return program
    nodes = exported.input_nodes(program)
    example = [
        torch.zeros([_hint(size) for size in node.meta["val"].shape], dtype=node.meta["val"].dtype) for node in nodes
    ]
    dynamic = [
        {axis: Dim.AUTO for axis, size in enumerate(node.meta["val"].shape) if isinstance(size, torch.SymInt)}
        for node in nodes
    ]
    args, kwargs = pytree.tree_unflatten(example, program.call_spec.in_spec)
    args_shapes, kwargs_shapes = pytree.tree_unflatten(dynamic, program.call_spec.in_spec)
    dynamic_shapes = (*args_shapes, *kwargs_shapes.values())  # in the order of forward's arguments
    return torch.export.export(program.module(), args, kwargs, dynamic_shapes=dynamic_shapes)


def _hint(size: Any) -> int:
    """The size that the program was exported with."""
    return size if isinstance(size, int) else int(size.node.hint)
