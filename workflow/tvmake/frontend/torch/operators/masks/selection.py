"""Replace selections by masks (``x[mask]``, ``nonzero``) by operators of fixed shape.

Operators on the selected elements are applied to all elements, with the mask beside them. In reductions, unselected
elements are replaced by the neutral element; in writes, they go to an additional row that is sliced off.
"""

import math
import operator
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import free_symbols

from tvmake.frontend.torch.operators.masks import axis_rules
from tvmake.frontend.torch.operators.masks.selected_values import SelectedValues, Selection, extent, is_constant_along

aten = torch.ops.aten


def replace_mask_selections(program: ExportedProgram) -> None:
    """Replace selections by masks, in place, if no result depends on the number of selected elements.

    Selections that are returned or that other operators use are not replaced.
    """
    _MaskSelectionRewriter(program).rewrite()


class _MaskSelectionRewriter(SelectedValues):
    """Finds a program's selections, and replaces the operators on them."""

    def rewrite(self) -> None:
        """See :func:`replace_mask_selections`."""
        is_changed = False
        for node in list(self.graph.nodes):
            if node.op != "call_function" or self.fake_mode is None:
                continue
            with self.graph.inserting_before(node):
                replacement = self._replacement(node)
            if isinstance(replacement, Selection):
                self._add(node, replacement)
            elif replacement is not None:
                node.replace_all_uses_with(replacement)
                is_changed = True
        self.graph.eliminate_dead_code()
        if is_changed:
            self.program.graph_module.recompile()

    def _add(self, node: fx.Node, selection: Selection) -> None:
        expression = extent(node, selection.axis)
        mask = next((known for known in self.masks if _is_same(known, selection.mask)), None)
        if mask is None:
            self.masks.append(mask := selection.mask)
        self.selections[node] = Selection(selection.source, mask, selection.axis)
        self.by_extent.setdefault(expression, self.selections[node])
        if expression.is_Symbol:
            self.symbols.setdefault(expression, int(extent(selection.source, selection.axis)))

    def _replacement(self, node: fx.Node) -> Selection | fx.Node | None:
        """The selection that a node computes, or its replacement; None if the node is not replaced."""
        if node.target is operator.getitem:
            return self.get_item(node)
        if not isinstance(node.target, torch._ops.OpOverload):
            return None
        if node.target is aten.nonzero.default:
            return self._nonzero(node)
        if node.target is aten.masked_select.default:
            return self._masked_select(node)
        if node.target is aten.index.Tensor and (axis := _mask_axis(node.args[1])) is not None:
            return self._index(node, axis)
        if node.target is aten.index_put.default and _mask_axis(node.args[1]) is not None:
            return self._index_put(node)
        if not any(operand in self.selections for operand in node.all_input_nodes):
            return self._fill(node)
        if node.target in axis_rules.WRITES:
            return self.write(node)
        if node.target in axis_rules.LOOKUPS:
            return self.look_up(node)
        return self.compute(node)

    def _index(self, node: fx.Node, axis: int) -> Selection | None:
        """``x[:, mask]``: all of x, with the mask's axes flattened."""
        data, index = node.args[0], node.args[1][axis]
        rank = index.meta["val"].dim()
        before = self.selections.get(data)
        if before and (rank != 1 or before.axis != axis or not self.has(index, before.mask)):
            return None
        if before:
            mask = self.call(aten.logical_and.default, before.mask, self.selections[index].source)
            return Selection(before.source, mask, axis)
        shape = data.meta["val"].shape
        if index in self.selections or free_symbols(data.meta["val"]) or axis + rank > len(shape) or not rank:
            return None
        return Selection(self._flat(data, axis, rank), self._flat(index, 0, rank), axis)

    def _masked_select(self, node: fx.Node) -> Selection | None:
        """``masked_select``, with both arguments broadcast to each other."""
        values = [argument.meta["val"] for argument in node.args]
        if any(argument in self.selections for argument in node.args) or any(map(free_symbols, values)):
            return None
        shape = list(torch.broadcast_shapes(*(value.shape for value in values)))
        if not shape:
            return None
        expanded = (self.call(aten.expand.default, argument, shape) for argument in node.args)
        data, mask = (self._flat(tensor, 0, len(shape)) for tensor in expanded)
        return Selection(data, mask, 0)

    def _flat(self, node: fx.Node, first: int, rank: int) -> fx.Node:
        if rank == 1:
            return node
        shape = list(node.meta["val"].shape)
        extents = [*shape[:first], math.prod(shape[first : first + rank]), *shape[first + rank :]]
        return self.call(aten.reshape.default, node, extents)

    def _nonzero(self, node: fx.Node) -> Selection | None:
        """``nonzero``: the indices of all elements."""
        value = node.args[0].meta["val"]
        if free_symbols(value) or not value.dim() or 0 in value.shape:
            return None
        positions = self.call(aten.arange.default, value.numel())
        columns = []
        for axis, size in enumerate(value.shape):
            step = math.prod(value.shape[axis + 1 :])
            column = self.call(aten.div.Tensor_mode, positions, step, rounding_mode="floor") if step > 1 else positions
            column = self.call(aten.remainder.Scalar, column, size) if axis else column
            columns.append(self.call(aten.unsqueeze.default, column, 1))
        source = self.call(aten.cat.default, columns, 1) if len(columns) > 1 else columns[0]
        mask = node.args[0] if value.dtype is torch.bool else self.call(aten.ne.Scalar, node.args[0], 0)
        return Selection(source, self._flat(mask, 0, value.dim()), 0)

    def _index_put(self, node: fx.Node) -> Selection | fx.Node | None:
        """``x[mask] = values``, with values that the same mask selects: ``where(mask, values, x)``."""
        data, indices, values, *accumulates = node.args
        axis = _mask_axis(indices)
        if axis is None or any(accumulates):
            return None
        mask, selection = indices[axis], self.selections.get(values)
        if data in self.selections:
            return self._index_put_selected(data, axis, mask, values)
        if selection is None:
            return self._put_in_order(data, axis, mask, values)
        if mask in self.selections or selection.axis != axis:
            return None
        rank, shape = mask.meta["val"].dim(), data.meta["val"].shape
        if not _is_same(selection.mask, self._flat(mask, 0, rank)):
            return None
        source = selection.source
        if rank > 1 and source.meta["val"].numel() == math.prod(shape):
            source = self.call(aten.reshape.default, source, list(shape))
        if source.meta["val"].shape != shape:
            return None
        return self.call(aten.where.self, self.expand_mask(mask, axis, len(shape), rank), source, data)

    def _put_in_order(self, data: fx.Node, first: int, mask: fx.Node, values: fx.Node) -> fx.Node | None:
        """``x[mask] = values``, with a value for each selected element: the n-th masked element takes the n-th value."""
        rank, shape, value = mask.meta["val"].dim(), data.meta["val"].shape, values.meta["val"]
        axis = value.dim() - (len(shape) - first - rank) - 1
        if (
            mask in self.selections
            or not rank
            or axis < 0
            or any(free_symbols(tensor.meta["val"]) for tensor in (data, values))
        ):
            return None
        if value.shape[axis] < 2 or not math.prod(shape):
            return None  # one value for all
        booleans = self._flat(mask, 0, rank)
        numbers = self.call(aten.cumsum.default, self.call(aten._to_copy.default, booleans, dtype=torch.int64), 0)
        numbers = self.call(aten.clamp.default, self.call(aten.sub.Tensor, numbers, 1), 0, value.shape[axis] - 1)
        rows = self.call(aten.index_select.default, values, axis, numbers)
        flat = self._flat(data, first, rank)
        written = self.call(aten.where.self, self.expand_mask(booleans, first, flat.meta["val"].dim()), rows, flat)
        return written if rank == 1 else self.call(aten.reshape.default, written, list(shape))

    def _index_put_selected(self, data: fx.Node, axis: int, mask: fx.Node, values: fx.Node) -> Selection | None:
        """``x[mask] = values``, with an x that is selected itself."""
        before, shape = self.selections[data], self.selections[data].source.meta["val"].shape
        if not self.has(mask, before.mask) or before.axis != axis or mask.meta["val"].dim() != 1:
            return None
        selected_mask = self.selections[mask].source
        source = values
        if values in self.selections:
            both = self.call(aten.logical_and.default, before.mask, selected_mask)
            if self.selections[values].axis != axis or not _is_same(self.selections[values].mask, both):
                return None
            source = self.selections[values].source
        elif not is_constant_along(values, axis - len(shape)):
            return None
        written = self.call(aten.where.self, self.expand_mask(selected_mask, axis, len(shape)), source, before.source)
        return Selection(written, before.mask, axis) if written.meta["val"].shape == shape else None

    def _fill(self, node: fx.Node) -> Selection | None:
        """A filled or expanded tensor with the size of a selection."""
        if node.target not in (aten.full.default, aten.expand.default):
            return None
        rank = node.meta["val"].dim()
        axis = next((axis for axis in range(rank) if extent(node, axis) in self.by_extent), None)
        if axis is None:
            return None
        source = self.apply(node)
        return None if source is None else Selection(source, self.by_extent[extent(node, axis)].mask, axis)


def _mask_axis(indices: Any) -> int | None:
    """The axis of the only index, if it is a mask."""
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    if len(axes) != 1 or indices[axes[0]].meta["val"].dtype is not torch.bool:
        return None
    return axes[0]


def _is_same(left: Any, right: Any) -> bool:
    """Whether two arguments are computed by the same expression."""
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_is_same, left, right))
    if not isinstance(left, fx.Node) or not isinstance(right, fx.Node):
        return type(left) is type(right) and left == right
    if left is right:
        return True
    is_same_call = left.op == right.op == "call_function"
    is_same_call = is_same_call and left.target is right.target and left.kwargs == right.kwargs
    return is_same_call and _is_same(left.args, right.args)
