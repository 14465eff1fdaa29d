"""Give inputs symbols of their own for dimensions that are arithmetic on other symbols: ``8*s0``, as in a U-Net.

Relax learns a symbol's value only where the symbol alone is a dimension. Such a program is exported again with dimensions of their own;
the multiples that it takes follow from its operators then.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch.export import Dim, ExportedProgram
from torch.utils import _pytree as pytree

from tvmake.frontend.options import InputSpec
from tvmake.frontend.torch import program as exported


def derived_axes(program: ExportedProgram) -> list[tuple[str, int]]:
    """Inputs' names and axes whose sizes are arithmetic on symbols that are no dimensions themselves."""
    sizes = [
        (node.name, axis, size.node.expr)
        for node in exported.input_nodes(program)
        for axis, size in enumerate(node.meta["val"].shape)
        if isinstance(size, torch.SymInt)
    ]
    alone = {expression for _, _, expression in sizes if expression.is_Symbol}
    return [(name, axis) for name, axis, expression in sizes if not expression.free_symbols <= alone]


def with_own_dimensions(program: ExportedProgram, entries: Mapping[str, InputSpec]) -> ExportedProgram:
    """The program with a symbol for each derived dimension, unless ``inputs:`` fixes one of them."""
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
    of_args, of_kwargs = pytree.tree_unflatten(dynamic, program.call_spec.in_spec)
    shapes_of = (*of_args, *of_kwargs.values())  # in the order of forward's arguments
    return torch.export.export(program.module(), args, kwargs, dynamic_shapes=shapes_of)


def _hint(size: Any) -> int:
    """The size that the program was exported with."""
    return size if isinstance(size, int) else int(size.node.hint)
