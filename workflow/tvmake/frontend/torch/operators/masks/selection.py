"""Elements that a mask selects (``x[mask]``, ``nonzero``), computed with fixed shapes beside the mask.

What is computed of the selected elements is computed of all of them, beside the mask. Where elements meet, in a sum, or are written somewhere,
the others count for nothing: they are the neutral element of what is computed, or are written to a row that is cut off.
"""

import math
import operator
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import free_symbols

from tvmake.frontend.torch.operators.masks import axis_rules
from tvmake.frontend.torch.operators.masks.selected_values import SelectedValues, Selection, extent, is_alike_along

aten = torch.ops.aten


def choose_by_masks(program: ExportedProgram) -> None:
    """Write what is computed of elements that a mask selects with fixed shapes, in place, where it does not depend on how many they are.

    Selections that are returned, or of which something else is computed, stay.
    """
    _Selections(program).write_out()


class _Selections(SelectedValues):
    """A program's selections: where they begin, and where they end as choices."""

    def write_out(self) -> None:
        """See :func:`choose_by_masks`."""
        is_changed = False
        for node in list(self.graph.nodes):
            if node.op != "call_function" or self.mode is None:
                continue
            with self.graph.inserting_before(node):
                made = self._rewritten(node)
            if isinstance(made, Selection):
                self._add(node, made)
            elif made is not None:
                node.replace_all_uses_with(made)
                is_changed = True
        self.graph.eliminate_dead_code()
        if is_changed:
            self.program.graph_module.recompile()

    def _add(self, node: fx.Node, selection: Selection) -> None:
        expression = extent(node, selection.axis)
        mask = next((one for one in self.masks if _is_same(one, selection.mask)), None)
        if mask is None:
            self.masks.append(mask := selection.mask)
        self.of[node] = Selection(selection.whole, mask, selection.axis)
        self.by_extent.setdefault(expression, self.of[node])
        if expression.is_Symbol:
            self.symbols.setdefault(expression, int(extent(selection.whole, selection.axis)))

    def _rewritten(self, node: fx.Node) -> Selection | fx.Node | None:
        """A selection, or what takes the node's place, or None where it has to stay."""
        if node.target is operator.getitem:
            return self.part(node)
        if not isinstance(node.target, torch._ops.OpOverload):
            return None
        if node.target is aten.nonzero.default:
            return self._places(node)
        if node.target is aten.masked_select.default:
            return self._selected_elements(node)
        if node.target is aten.index.Tensor and (place := _place_of_mask(node.args[1])) is not None:
            return self._selected(node, place)
        if node.target is aten.index_put.default and _place_of_mask(node.args[1]) is not None:
            return self._chosen(node)
        if not any(one in self.of for one in node.all_input_nodes):
            return self._filled(node)
        if node.target in axis_rules.WRITES:
            return self.written(node)
        if node.target in axis_rules.LOOKUPS:
            return self.looked_up(node)
        return self.computed(node)

    def _selected(self, node: fx.Node, place: int) -> Selection | None:
        """``x[:, mask]``: all of x, with the mask's axes as one."""
        data, index = node.args[0], node.args[1][place]
        rank = index.meta["val"].dim()
        before = self.of.get(data)
        if before and (rank != 1 or before.axis != place or not self.has(index, before.mask)):
            return None
        if before:
            mask = self.call(aten.logical_and.default, before.mask, self.of[index].whole)
            return Selection(before.whole, mask, place)
        shape = data.meta["val"].shape
        if index in self.of or free_symbols(data.meta["val"]) or place + rank > len(shape) or not rank:
            return None
        return Selection(self._flat(data, place, rank), self._flat(index, 0, rank), place)

    def _selected_elements(self, node: fx.Node) -> Selection | None:
        """``masked_select``: of both arguments, broadcast to each other."""
        values = [one.meta["val"] for one in node.args]
        if any(one in self.of for one in node.args) or any(map(free_symbols, values)):
            return None
        shape = list(torch.broadcast_shapes(*(value.shape for value in values)))
        if not shape:
            return None
        data, mask = (self._flat(self.call(aten.expand.default, one, shape), 0, len(shape)) for one in node.args)
        return Selection(data, mask, 0)

    def _flat(self, node: fx.Node, first: int, rank: int) -> fx.Node:
        if rank == 1:
            return node
        shape = list(node.meta["val"].shape)
        extents = [*shape[:first], math.prod(shape[first : first + rank]), *shape[first + rank :]]
        return self.call(aten.reshape.default, node, extents)

    def _places(self, node: fx.Node) -> Selection | None:
        """``nonzero``: the places of all elements."""
        value = node.args[0].meta["val"]
        if free_symbols(value) or not value.dim() or 0 in value.shape:
            return None
        places = self.call(aten.arange.default, value.numel())
        columns = []
        for axis, size in enumerate(value.shape):
            step = math.prod(value.shape[axis + 1 :])
            column = self.call(aten.div.Tensor_mode, places, step, rounding_mode="floor") if step > 1 else places
            column = self.call(aten.remainder.Scalar, column, size) if axis else column
            columns.append(self.call(aten.unsqueeze.default, column, 1))
        whole = self.call(aten.cat.default, columns, 1) if len(columns) > 1 else columns[0]
        mask = node.args[0] if value.dtype is torch.bool else self.call(aten.ne.Scalar, node.args[0], 0)
        return Selection(whole, self._flat(mask, 0, value.dim()), 0)

    def _chosen(self, node: fx.Node) -> Selection | fx.Node | None:
        """``x[mask] = values``, with values that the same mask selects: a choice between them and x."""
        data, indices, values, *accumulates = node.args
        place = _place_of_mask(indices)
        if place is None or any(accumulates):
            return None
        mask, selection = indices[place], self.of.get(values)
        if data in self.of:
            return self._chosen_of_selected(data, place, mask, values)
        if selection is None:
            return self._numbered(data, place, mask, values)
        if mask in self.of or selection.axis != place:
            return None
        rank, shape = mask.meta["val"].dim(), data.meta["val"].shape
        if not _is_same(selection.mask, self._flat(mask, 0, rank)):
            return None
        whole = selection.whole
        if rank > 1 and whole.meta["val"].numel() == math.prod(shape):
            whole = self.call(aten.reshape.default, whole, list(shape))
        if whole.meta["val"].shape != shape:
            return None
        return self.call(aten.where.self, self.beside(mask, place, len(shape), rank), whole, data)

    def _numbered(self, data: fx.Node, place: int, mask: fx.Node, values: fx.Node) -> fx.Node | None:
        """``x[mask] = values``, with one for each selected element: the n-th place where the mask holds takes the n-th."""
        rank, shape, given = mask.meta["val"].dim(), data.meta["val"].shape, values.meta["val"]
        axis = given.dim() - (len(shape) - place - rank) - 1
        if mask in self.of or not rank or axis < 0 or any(free_symbols(one.meta["val"]) for one in (data, values)):
            return None
        if given.shape[axis] < 2 or not math.prod(shape):
            return None  # one for all
        truths = self._flat(mask, 0, rank)
        numbers = self.call(aten.cumsum.default, self.call(aten._to_copy.default, truths, dtype=torch.int64), 0)
        numbers = self.call(aten.clamp.default, self.call(aten.sub.Tensor, numbers, 1), 0, given.shape[axis] - 1)
        taken = self.call(aten.index_select.default, values, axis, numbers)
        flat = self._flat(data, place, rank)
        made = self.call(aten.where.self, self.beside(truths, place, flat.meta["val"].dim()), taken, flat)
        return made if rank == 1 else self.call(aten.reshape.default, made, list(shape))

    def _chosen_of_selected(self, data: fx.Node, place: int, mask: fx.Node, values: fx.Node) -> Selection | None:
        """The same, where x is selected itself."""
        before, shape = self.of[data], self.of[data].whole.meta["val"].shape
        if not self.has(mask, before.mask) or before.axis != place or mask.meta["val"].dim() != 1:
            return None
        of_mask = self.of[mask].whole
        whole = values
        if values in self.of:
            both = self.call(aten.logical_and.default, before.mask, of_mask)
            if self.of[values].axis != place or not _is_same(self.of[values].mask, both):
                return None
            whole = self.of[values].whole
        elif not is_alike_along(values, place - len(shape)):
            return None
        made = self.call(aten.where.self, self.beside(of_mask, place, len(shape)), whole, before.whole)
        return Selection(made, before.mask, place) if made.meta["val"].shape == shape else None

    def _filled(self, node: fx.Node) -> Selection | None:
        """A tensor of one number, or one repeated, with an extent of a selection."""
        if node.target not in (aten.full.default, aten.expand.default):
            return None
        rank = node.meta["val"].dim()
        axis = next((axis for axis in range(rank) if extent(node, axis) in self.by_extent), None)
        if axis is None:
            return None
        whole = self.called(node)
        return None if whole is None else Selection(whole, self.by_extent[extent(node, axis)].mask, axis)


def _place_of_mask(indices: Any) -> int | None:
    """Where the only index is, if it holds truth values."""
    found = [place for place, one in enumerate(indices) if one is not None]
    if len(found) != 1 or indices[found[0]].meta["val"].dtype is not torch.bool:
        return None
    return found[0]


def _is_same(one: Any, other: Any) -> bool:
    """Whether two arguments hold what is computed in the same way."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if not isinstance(one, fx.Node) or not isinstance(other, fx.Node):
        return type(one) is type(other) and one == other
    if one is other:
        return True
    is_alike = one.op == other.op == "call_function" and one.target is other.target and one.kwargs == other.kwargs
    return is_alike and _is_same(one.args, other.args)
