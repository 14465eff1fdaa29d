"""Compute operators on selected elements with all elements and the mask of the selection."""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch import Tensor, fx
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from tvmake.frontend.torch.operators.masks import axis_rules

aten = torch.ops.aten


@dataclass(frozen=True)
class Selection:
    """Selected elements, represented by all elements and a mask."""

    source: fx.Node
    """All elements."""
    mask: fx.Node
    """Booleans, one for each index of the axis."""
    axis: int


class SelectedValues:
    """The selections of a program, by the nodes of the selected elements, and the operators on them."""

    def __init__(self, program: ExportedProgram):
        self.program, self.graph = program, program.graph
        self.selections: dict[fx.Node, Selection] = {}
        self.masks: list[fx.Node] = []
        self.by_extent: dict[sympy.Expr, Selection] = {}
        """A selection by its number of elements."""
        self.symbols: dict[sympy.Symbol, int] = {}
        """The number of all elements, by the symbol of the number of selected ones."""
        values = [node.meta.get("val") for node in self.graph.nodes]
        self.fake_mode = next((value.fake_mode for value in values if hasattr(value, "fake_mode")), None)

    def call(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        """Add a node, with the fake tensor of its value."""
        node = self.graph.call_function(target, args, kwargs)
        values, named = fx.node.map_arg((args, kwargs), lambda operand: operand.meta["val"])
        with self.fake_mode:  # type: ignore[union-attr]
            node.meta["val"] = target(*values, **named)
        return node

    def has(self, node: fx.Node, mask: fx.Node) -> bool:
        return node in self.selections and self.selections[node].mask is mask

    def expand_mask(self, mask: fx.Node, axis: int, rank: int, extents: int = 1) -> fx.Node:
        """Append axes to a mask so that it broadcasts along an axis, or several, of a tensor of some rank."""
        for _ in range(rank - axis - extents):
            mask = self.call(aten.unsqueeze.default, mask, -1)
        return mask

    def apply(self, node: fx.Node, replaced: dict[fx.Node, fx.Node] | None = None) -> fx.Node | None:
        """Apply an operator to all elements; None if it uses the number of selected elements other than as a size."""
        replaced = replaced or {}

        def argument(operand: fx.Node) -> Any:
            if operand in replaced:
                return replaced[operand]
            if operand in self.selections:
                return self.selections[operand].source
            value = operand.meta["val"]
            return self._source_size(value) if isinstance(value, torch.SymInt) else operand

        args, kwargs = fx.node.map_arg((node.args, node.kwargs), argument)
        sizes = [operand for operand in node.all_input_nodes if isinstance(operand.meta["val"], torch.SymInt)]
        if (sizes and node.target not in axis_rules.WITH_SIZES) or None in pytree.tree_leaves(
            [argument(size) for size in sizes]
        ):
            return None
        return self.call(node.target, *args, **kwargs)

    def _source_size(self, value: torch.SymInt) -> int | None:
        size = value.node.expr.subs(self.symbols)
        return int(size) if size.is_Integer else None

    def _common_selection(self, node: fx.Node) -> Selection | None:
        """The first selection among the arguments; None if they have different masks."""
        selections = [self.selections[operand] for operand in node.all_input_nodes if operand in self.selections]
        return selections[0] if all(selection.mask is selections[0].mask for selection in selections) else None

    def compute(self, node: fx.Node) -> Selection | fx.Node | None:
        """Compute an element-wise operator, or a reduction in which the unselected elements are neutral."""
        if node.target is aten.cat.default:
            return self._concatenate(node)
        selection = self._common_selection(node)
        if selection is None:
            return None
        if torch.Tag.pointwise in node.target.tags:
            rank = node.meta["val"].dim()
            result_axes = {
                operand: self.selections[operand].axis + rank - operand.meta["val"].dim()
                for operand in node.all_input_nodes
                if operand in self.selections
            }
            axis = next(iter(result_axes.values()))
            if len(set(result_axes.values())) > 1 or not all(
                is_constant_along(operand, axis - rank)
                for operand in node.all_input_nodes
                if operand not in self.selections
            ):
                return None
            source = self.apply(node)
            return None if source is None else Selection(source, selection.mask, axis)
        if node.target in axis_rules.MATMULS:
            return self._multiply(node)
        first = node.args[0]
        if first not in self.selections or sum(operand in self.selections for operand in node.all_input_nodes) != 1:
            return None
        selection, rank = self.selections[first], first.meta["val"].dim()
        axes = axis_rules.axes_of(node, rank)
        if axes is None:
            return None
        if selection.axis in axes:
            return self._reduce(node, axes)
        source = self.apply(node)
        return None if source is None else self._follow_axis(node, source, selection, first)

    def _follow_axis(self, node: fx.Node, source: fx.Node, selection: Selection, operand: fx.Node) -> Selection | None:
        """Find the selected axis in a result: the only axis of its size, in views after equally many elements."""
        values = pytree.tree_leaves(node.meta["val"])
        size = extent(operand, selection.axis)
        candidates = {
            tuple(axis for axis in range(value.dim()) if _expression(value.shape[axis]) == size) for value in values
        }
        if len(candidates) != 1 or len(axes := next(iter(candidates))) != 1:
            return None
        axis = axes[0]
        if node.target in axis_rules.VIEWS:
            counts = [
                math.prod(value.shape[:stop])
                for value, stop in ((operand.meta["val"], selection.axis), (values[0], axis))
            ]
            if counts[0] != counts[1]:
                return None
        return Selection(source, selection.mask, axis)

    def get_item(self, node: fx.Node) -> Selection | None:
        """One of several results."""
        if (selection := self.selections.get(node.args[0])) is None:
            return None
        return Selection(self.call(operator.getitem, selection.source, node.args[1]), selection.mask, selection.axis)

    def _fill_unselected(self, operand: fx.Node, number: float | bool) -> fx.Node:
        """All elements, with a number instead of the unselected ones."""
        selection = self.selections[operand]
        value = selection.source.meta["val"]
        mask = self.expand_mask(selection.mask, selection.axis, value.dim())
        if value.dtype is torch.bool:
            number = bool(number)
        elif not value.dtype.is_floating_point and math.isinf(number):
            info = torch.iinfo(value.dtype)
            number = info.max if number > 0 else info.min
        neutral = self.call(aten.scalar_tensor.default, number, dtype=value.dtype)
        return self.call(aten.where.self, mask, selection.source, neutral)

    def _reduce(self, node: fx.Node, axes: Sequence[int]) -> Selection | fx.Node | None:
        """Compute an operator along the selected axis."""
        operand = node.args[0]
        selection = self.selections[operand]
        if node.target in axis_rules.MEANS:
            if selection.source.meta["val"].is_complex():
                return None
            mean = self.apply(node, {operand: self._fill_unselected(operand, 0)})
            count = self.call(aten.sum.dim_IntList, selection.mask, [0], dtype=selection.source.meta["val"].dtype)
            size = float(selection.source.meta["val"].shape[selection.axis])
            return self.call(aten.div.Tensor, self.call(aten.mul.Tensor, mean, size), count)
        if node.target not in axis_rules.NEUTRAL:
            return None
        result = self.apply(node, {operand: self._fill_unselected(operand, axis_rules.NEUTRAL[node.target])})
        if result is None or node.target not in axis_rules.CUMULATIVE:
            return result
        return Selection(result, selection.mask, selection.axis)

    def _concatenate(self, node: fx.Node) -> Selection | None:
        """Concatenate tensors. Along the selected axis, all elements of the other tensors are selected."""
        parts, axis = node.args[0], (node.args[1] if len(node.args) > 1 else 0) % node.meta["val"].dim()
        selections = [self.selections[part] for part in parts if part in self.selections]
        axes = {selection.axis for selection in selections}
        if axes != {axis}:
            # Along another axis, all parts need the selected axis and the same mask.
            have_same_mask = len(selections) == len(parts) and self._common_selection(node) and len(axes) == 1
            source = self.apply(node) if have_same_mask else None
            return None if source is None else Selection(source, selections[0].mask, selections[0].axis)
        masks = [
            self.selections[part].mask
            if part in self.selections
            else self.call(aten.full.default, [part.meta["val"].shape[axis]], True, dtype=torch.bool)
            for part in parts
        ]
        source = self.apply(node)
        return None if source is None else Selection(source, self.call(aten.cat.default, masks), axis)

    def _multiply(self, node: fx.Node) -> Selection | fx.Node | None:
        """A matmul. The result has the selected rows or columns; unselected elements of the inner axis become zero."""
        *bias, left, right = node.args
        if any(term in self.selections for term in bias) or (bias and bias[0].meta["val"].dim() > 1):
            return None
        rank = left.meta["val"].dim()
        inner_axes = {left: rank - 1, right: rank - 2}
        inner = [
            factor
            for factor in {left, right}
            if factor in self.selections and self.selections[factor].axis == inner_axes[factor]
        ]
        if inner:
            if left is right or len(inner) != 2:
                return None
            return self.apply(node, {factor: self._fill_unselected(factor, 0) for factor in inner})
        selections = [self.selections[factor] for factor in (left, right) if factor in self.selections]
        if len(selections) == 2 and {selection.axis for selection in selections} != {0}:
            return None
        if selections[0].axis == 0 and rank > 2 and len(selections) != 2:
            return None
        axis = selections[0].axis
        source = self.apply(node)
        return None if source is None else Selection(source, selections[0].mask, axis)

    def _valid_index(self, index: fx.Node) -> fx.Node:
        """Indices of all elements. Unselected ones may be out of range, so they become 0."""
        return self._fill_unselected(index, 0) if index in self.selections else index

    def _mixes_axes(self, data: fx.Node, indices: fx.Node, axis: int) -> bool:
        """Whether a gather of selected elements does not keep their axis."""
        rank = data.meta["val"].dim()
        selected_axis = self.selections[data].axis
        return selected_axis != self.selections[indices].axis or axis % rank == selected_axis

    def look_up(self, node: fx.Node) -> Selection | None:
        """Look up rows of a table at selected indices."""
        indices = axis_rules.index_arguments(node)
        selection = self._common_selection(node)
        selected = [index for index in indices if index in self.selections]
        if selection is None or not selected:
            return None if selection is None else self.compute(node)
        data = node.args[0]
        if data in self.selections and (
            node.target is not aten.gather.default or self._mixes_axes(data, indices[0], node.args[1])
        ):
            return None
        source = self.apply(node, {index: self._valid_index(index) for index in selected})
        return None if source is None else self._follow_axis(node, source, selection, selected[0])

    def write(self, node: fx.Node) -> fx.Node | None:
        """Write or add elements at indices. Unselected ones are written to an additional row that is sliced off."""
        data, axis, index = self._write_target(node)
        indices = axis_rules.index_arguments(node)
        values = [operand for operand in node.all_input_nodes if operand not in (data, *indices)]
        if index is None or data in self.selections or self._common_selection(node) is None:
            return None
        if indices.count(index) > 1:
            return None
        if node.target is aten.index_put.default:
            last = max(position for position, argument in enumerate(node.args[1]) if argument is not None)
            from_end = data.meta["val"].dim() - last
        else:
            from_end = data.meta["val"].dim() - axis
        for value in values:
            is_selected = value in self.selections
            has_axis = is_selected and value.meta["val"].dim() - self.selections[value].axis == from_end
            if not has_axis and (is_selected or not is_constant_along(value, -from_end)):
                return None
        selection, shape = self.selections[index], list(data.meta["val"].shape)
        row = self.call(aten.full.default, [*shape[:axis], 1, *shape[axis + 1 :]], 0, dtype=data.meta["val"].dtype)
        padded = self.call(aten.cat.default, [data, row], axis)
        positions = selection.source
        if node.target is aten.index_put.default:  # negative indices count from the end
            positions = self.call(aten.remainder.Scalar, positions, shape[axis])
        outside = self.call(aten.scalar_tensor.default, shape[axis], dtype=positions.meta["val"].dtype)
        mask = self.expand_mask(selection.mask, selection.axis, positions.meta["val"].dim())
        others = {other: self._valid_index(other) for other in indices if other in self.selections}
        positions = self.call(aten.where.self, mask, positions, outside)
        written = self.apply(node, {**others, data: padded, index: positions})
        return None if written is None else self.call(aten.slice.Tensor, written, axis, 0, shape[axis])

    def _write_target(self, node: fx.Node) -> tuple[Any, int, fx.Node | None]:
        """The tensor of a write, and the first axis with selected indices, with these indices."""
        data = node.args[0]
        if node.target is aten.index_put.default:
            indices = [(axis, index) for axis, index in enumerate(node.args[1]) if index is not None]
            # Vectors for adjacent axes, so that the selected axis of the values is at the first of these axes.
            if any(index.meta["val"].dim() != 1 for _, index in indices) or [axis for axis, _ in indices] != list(
                range(indices[0][0], indices[-1][0] + 1)
            ):
                return data, 0, None
            return data, *next(((axis, index) for axis, index in indices if index in self.selections), (0, None))
        axis, index = node.args[1] % max(data.meta["val"].dim(), 1), node.args[2]
        return data, axis, index if index in self.selections and self.selections[index].axis == axis else None


def extent(node: fx.Node, axis: int) -> sympy.Expr:
    """The size of an axis of a node's value."""
    value = node.meta["val"]
    return _expression((value if isinstance(value, Tensor) else pytree.tree_leaves(value)[0]).shape[axis])


def _expression(size: int | torch.SymInt) -> sympy.Expr:
    return size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)


def is_constant_along(operand: fx.Node, axis: int) -> bool:
    """Whether an argument is not a tensor, or has size 1 along an axis, which is counted from the end."""
    value = operand.meta["val"]
    if not isinstance(value, Tensor):
        return True
    return value.dim() < -axis or value.shape[axis] == 1
