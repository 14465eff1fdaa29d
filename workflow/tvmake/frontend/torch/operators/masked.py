"""Elements that a mask selects, changed and put back (``x[mask] = f(y[mask])``): how many there are depends on the data.

What is computed of the selected elements alone is computed of all, and the mask chooses between that and what was there before.
"""

from typing import Any

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

aten = torch.ops.aten

Whole = tuple[fx.Node, fx.Node]
"""A mask, and what selected elements are taken from."""


def choose_by_masks(program: ExportedProgram) -> None:
    """Write elements that a mask selects and that are put back as choices, in place; other selections stay."""
    graph = program.graph
    wholes: dict[fx.Node, Whole] = {}
    is_changed = False
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        with graph.inserting_before(node):
            if node.target is aten.index.Tensor and _mask(node.args[1]) is not None:
                wholes[node] = (_mask(node.args[1]), node.args[0])
            elif node.target is aten.index_put.default and (chosen := _choice(program, node, wholes)):
                node.replace_all_uses_with(chosen)
                is_changed = True
            elif (whole := _computed(program, node, wholes)) is not None:
                wholes[node] = whole
    graph.eliminate_dead_code()
    if is_changed:
        program.graph_module.recompile()


def _mask(indices: Any) -> Any:
    """The only index, if it holds truth values."""
    index = indices[0] if len(indices) == 1 else None
    return index if isinstance(index, fx.Node) and index.meta["val"].dtype == torch.bool else None


def _is_same(one: Any, other: Any) -> bool:
    """Whether two arguments hold what is computed in the same way."""
    if not isinstance(one, fx.Node) or not isinstance(other, fx.Node):
        return type(one) is type(other) and one == other
    if one is other:
        return True
    is_alike = one.op == other.op == "call_function" and one.target is other.target and one.kwargs == other.kwargs
    return is_alike and len(one.args) == len(other.args) and all(map(_is_same, one.args, other.args))


def _call(program: ExportedProgram, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
    """A node, with the fake tensor that stands for its value."""
    node = program.graph.call_function(target, args, kwargs)
    values, named = fx.node.map_arg((args, kwargs), lambda one: one.meta["val"])
    fake = next(one.meta["val"].fake_mode for one in node.all_input_nodes if hasattr(one.meta["val"], "fake_mode"))
    with fake:
        node.meta["val"] = target(*values, **named)
    return node


def _computed(program: ExportedProgram, node: fx.Node, wholes: dict[fx.Node, Whole]) -> Whole | None:
    """What an operator gives for all elements, that treats each row of the selected ones by itself."""
    given = [one for one in node.all_input_nodes if one in wholes]
    if not given or not isinstance(node.meta["val"], Tensor):
        return None
    mask = wholes[given[0]][0]
    if not all(_is_same(wholes[one][0], mask) for one in given):
        return None
    others = [one.meta["val"] for one in node.all_input_nodes if one not in wholes]
    if torch.Tag.pointwise in getattr(node.target, "tags", ()):
        rank = node.meta["val"].dim()
        if not all(other.dim() < rank or (other.dim() == rank and other.shape[0] == 1) for other in others):
            return None  # one that has a row for each selected one
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda one: wholes[one][1] if one in wholes else one)
        return mask, _call(program, node.target, *args, **kwargs)
    is_sum = node.target is aten.addmm.default and not node.kwargs and node.args[0].meta["val"].dim() == 1
    if not is_sum and node.target is not aten.mm.default:
        return None
    *bias, rows, matrix = node.args
    if rows not in wholes or len(given) != 1:
        return None
    product = _call(program, aten.matmul.default, wholes[rows][1], matrix)
    return mask, _call(program, aten.add.Tensor, product, *bias) if bias else product


def _choice(program: ExportedProgram, node: fx.Node, wholes: dict[fx.Node, Whole]) -> fx.Node | None:
    data, indices, values, *accumulates = node.args
    selecting = _mask(indices)
    if selecting is None or values not in wholes or any(accumulates) or not _is_same(wholes[values][0], selecting):
        return None
    mask, whole = wholes[values]
    if whole.meta["val"].shape != data.meta["val"].shape:
        return None
    for _ in range(data.meta["val"].dim() - mask.meta["val"].dim()):
        mask = _call(program, aten.unsqueeze.default, mask, -1)
    return _call(program, aten.where.self, mask, whole, data)
