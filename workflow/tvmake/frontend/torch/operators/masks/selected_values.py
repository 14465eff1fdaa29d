"""What is computed of elements that a mask selects, by all elements and the mask beside them."""

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
    """Selected elements, by all of those that they are selected from."""

    whole: fx.Node
    mask: fx.Node
    """Which are selected: as many truth values as the whole has along the axis."""
    axis: int


class SelectedValues:
    """The selections of a program, by the nodes that hold the selected elements alone, and what operators make of them."""

    def __init__(self, program: ExportedProgram):
        self.program, self.graph = program, program.graph
        self.of: dict[fx.Node, Selection] = {}
        self.masks: list[fx.Node] = []
        self.by_extent: dict[sympy.Expr, Selection] = {}
        """A selection by how many elements it has."""
        self.symbols: dict[sympy.Symbol, int] = {}
        """How many elements there are in all, by the symbol of how many are selected."""
        values = [node.meta.get("val") for node in self.graph.nodes]
        self.mode = next((value.fake_mode for value in values if hasattr(value, "fake_mode")), None)

    def call(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        """A node, with the fake tensor that stands for its value."""
        node = self.graph.call_function(target, args, kwargs)
        values, named = fx.node.map_arg((args, kwargs), lambda one: one.meta["val"])
        with self.mode:  # type: ignore[union-attr]
            node.meta["val"] = target(*values, **named)
        return node

    def has(self, node: fx.Node, mask: fx.Node) -> bool:
        return node in self.of and self.of[node].mask is mask

    def beside(self, mask: fx.Node, axis: int, rank: int, extents: int = 1) -> fx.Node:
        """A mask along an axis, or several, of a tensor of some rank."""
        for _ in range(rank - axis - extents):
            mask = self.call(aten.unsqueeze.default, mask, -1)
        return mask

    def called(self, node: fx.Node, replaced: dict[fx.Node, fx.Node] | None = None) -> fx.Node | None:
        """What an operator gives for all elements; None where an argument says how many are selected, and is no extent."""
        replaced = replaced or {}

        def argument(one: fx.Node) -> Any:
            if one in replaced:
                return replaced[one]
            if one in self.of:
                return self.of[one].whole
            value = one.meta["val"]
            return self._extent_of_all(value) if isinstance(value, torch.SymInt) else one

        args, kwargs = fx.node.map_arg((node.args, node.kwargs), argument)
        numbers = [one for one in node.all_input_nodes if isinstance(one.meta["val"], torch.SymInt)]
        if (numbers and node.target not in axis_rules.WITH_EXTENTS) or None in pytree.tree_leaves(
            [argument(one) for one in numbers]
        ):
            return None
        return self.call(node.target, *args, **kwargs)

    def _extent_of_all(self, value: torch.SymInt) -> int | None:
        found = value.node.expr.subs(self.symbols)
        return int(found) if found.is_Integer else None

    def _agreed(self, node: fx.Node) -> Selection | None:
        """What the selected arguments have in common; None where they do not."""
        given = [self.of[one] for one in node.all_input_nodes if one in self.of]
        return given[0] if all(one.mask is given[0].mask for one in given) else None

    def computed(self, node: fx.Node) -> Selection | fx.Node | None:
        """What is computed of each selected element by itself, or of all of them with the others neutral."""
        if node.target is aten.cat.default:
            return self._joined(node)
        selection = self._agreed(node)
        if selection is None:
            return None
        if torch.Tag.pointwise in node.target.tags:
            rank = node.meta["val"].dim()
            after = {
                one: self.of[one].axis + rank - one.meta["val"].dim() for one in node.all_input_nodes if one in self.of
            }
            axis = next(iter(after.values()))
            if len(set(after.values())) > 1 or not all(
                is_alike_along(one, axis - rank) for one in node.all_input_nodes if one not in self.of
            ):
                return None
            whole = self.called(node)
            return None if whole is None else Selection(whole, selection.mask, axis)
        if node.target in axis_rules.PRODUCTS:
            return self._multiplied(node)
        first = node.args[0]
        if first not in self.of or sum(one in self.of for one in node.all_input_nodes) != 1:
            return None
        selection, rank = self.of[first], first.meta["val"].dim()
        axes = axis_rules.axes_of(node, rank)
        if axes is None:
            return None
        if selection.axis in axes:
            return self._reduced(node, axes)
        whole = self.called(node)
        return None if whole is None else self._followed(node, whole, selection, first)

    def _followed(self, node: fx.Node, whole: fx.Node, selection: Selection, given: fx.Node) -> Selection | None:
        """Where the selected axis is in what is computed: the axis with the same extent, behind as many elements in views."""
        values = pytree.tree_leaves(node.meta["val"])
        wanted = extent(given, selection.axis)
        places = {
            tuple(axis for axis in range(value.dim()) if _expression(value.shape[axis]) == wanted) for value in values
        }
        if len(places) != 1 or len(place := next(iter(places))) != 1:
            return None
        axis = place[0]
        if node.target in axis_rules.VIEWS:
            before = [
                math.prod(one.shape[:until]) for one, until in ((given.meta["val"], selection.axis), (values[0], axis))
            ]
            if before[0] != before[1]:
                return None
        return Selection(whole, selection.mask, axis)

    def part(self, node: fx.Node) -> Selection | None:
        """One of several results."""
        if (selection := self.of.get(node.args[0])) is None:
            return None
        return Selection(self.call(operator.getitem, selection.whole, node.args[1]), selection.mask, selection.axis)

    def _neutral(self, given: fx.Node, number: float | bool) -> fx.Node:
        """All elements, with a number in place of those that are not selected."""
        selection = self.of[given]
        value = selection.whole.meta["val"]
        mask = self.beside(selection.mask, selection.axis, value.dim())
        if value.dtype is torch.bool:
            number = bool(number)
        elif not value.dtype.is_floating_point and math.isinf(number):
            info = torch.iinfo(value.dtype)
            number = info.max if number > 0 else info.min
        filling = self.call(aten.scalar_tensor.default, number, dtype=value.dtype)
        return self.call(aten.where.self, mask, selection.whole, filling)

    def _reduced(self, node: fx.Node, axes: Sequence[int]) -> Selection | fx.Node | None:
        """What is computed along the selected axis."""
        given = node.args[0]
        selection = self.of[given]
        if node.target in axis_rules.MEANS:
            if selection.whole.meta["val"].is_complex():
                return None
            of_all = self.called(node, {given: self._neutral(given, 0)})
            count = self.call(aten.sum.dim_IntList, selection.mask, [0], dtype=selection.whole.meta["val"].dtype)
            size = float(selection.whole.meta["val"].shape[selection.axis])
            return self.call(aten.div.Tensor, self.call(aten.mul.Tensor, of_all, size), count)
        if node.target not in axis_rules.NEUTRAL:
            return None
        made = self.called(node, {given: self._neutral(given, axis_rules.NEUTRAL[node.target])})
        if made is None or node.target not in axis_rules.ALONG:
            return made
        return Selection(made, selection.mask, selection.axis)

    def _joined(self, node: fx.Node) -> Selection | None:
        """Tensors one after the other: along the selected axis, the others are selected whole."""
        parts, axis = node.args[0], (node.args[1] if len(node.args) > 1 else 0) % node.meta["val"].dim()
        given = [self.of[one] for one in parts if one in self.of]
        if {one.axis for one in given} != {axis}:
            # Beside each other: each has to have the axis, and the same mask.
            is_beside = len(given) == len(parts) and self._agreed(node) and len({one.axis for one in given}) == 1
            whole = self.called(node) if is_beside else None
            return None if whole is None else Selection(whole, given[0].mask, given[0].axis)
        masks = [
            self.of[one].mask
            if one in self.of
            else self.call(aten.full.default, [one.meta["val"].shape[axis]], True, dtype=torch.bool)
            for one in parts
        ]
        whole = self.called(node)
        return None if whole is None else Selection(whole, self.call(aten.cat.default, masks), axis)

    def _multiplied(self, node: fx.Node) -> Selection | fx.Node | None:
        """A product: rows or columns of it are those of its factors; where elements meet, those not selected are zero."""
        *bias, left, right = node.args
        if any(one in self.of for one in bias) or (bias and bias[0].meta["val"].dim() > 1):
            return None
        rank = left.meta["val"].dim()
        inner = {left: rank - 1, right: rank - 2}
        meets = [one for one in {left, right} if one in self.of and self.of[one].axis == inner[one]]
        if meets:
            if left is right or len(meets) != 2:
                return None
            return self.called(node, {one: self._neutral(one, 0) for one in meets})
        selections = [self.of[one] for one in (left, right) if one in self.of]
        if len(selections) == 2 and {one.axis for one in selections} != {0}:
            return None
        if selections[0].axis == 0 and rank > 2 and len(selections) != 2:
            return None
        axis = selections[0].axis
        whole = self.called(node)
        return None if whole is None else Selection(whole, selections[0].mask, axis)

    def _safe(self, index: fx.Node) -> fx.Node:
        """Places of all elements, at the first one where an element is not selected: it may lie outside."""
        return self._neutral(index, 0) if index in self.of else index

    def _meets(self, data: fx.Node, places: fx.Node, axis: int) -> bool:
        """Whether places of selected elements are along their own axis."""
        rank = data.meta["val"].dim()
        return self.of[data].axis != self.of[places].axis or axis % rank == self.of[data].axis

    def looked_up(self, node: fx.Node) -> Selection | None:
        """Rows of a table at selected places."""
        places = axis_rules.places(node)
        selection = self._agreed(node)
        if selection is None or not any(one in self.of for one in places):
            return None if selection is None else self.computed(node)
        data = node.args[0]
        if data in self.of and (node.target is not aten.gather.default or self._meets(data, places[0], node.args[1])):
            return None
        whole = self.called(node, {one: self._safe(one) for one in places if one in self.of})
        given = next(one for one in places if one in self.of)
        return None if whole is None else self._followed(node, whole, selection, given)

    def written(self, node: fx.Node) -> fx.Node | None:
        """Elements written to places, or added there: those that are not selected to a row more, which is cut off."""
        data, axis, index = self._place_of_writing(node)
        values = [one for one in node.all_input_nodes if one not in (data, *axis_rules.places(node))]
        if index is None or data in self.of or self._agreed(node) is None:
            return None
        if axis_rules.places(node).count(index) > 1:
            return None
        if node.target is aten.index_put.default:
            last = max(place for place, one in enumerate(node.args[1]) if one is not None)
            behind = data.meta["val"].dim() - last
        else:
            behind = data.meta["val"].dim() - axis
        for one in values:
            is_along = one in self.of and one.meta["val"].dim() - self.of[one].axis == behind
            if not is_along and (one in self.of or not is_alike_along(one, -behind)):
                return None
        selection, shape = self.of[index], list(data.meta["val"].shape)
        more = self.call(aten.full.default, [*shape[:axis], 1, *shape[axis + 1 :]], 0, dtype=data.meta["val"].dtype)
        padded = self.call(aten.cat.default, [data, more], axis)
        places = selection.whole
        if node.target is aten.index_put.default:  # negative ones are counted from the end
            places = self.call(aten.remainder.Scalar, places, shape[axis])
        outside = self.call(aten.scalar_tensor.default, shape[axis], dtype=places.meta["val"].dtype)
        mask = self.beside(selection.mask, selection.axis, places.meta["val"].dim())
        others = {one: self._safe(one) for one in axis_rules.places(node) if one in self.of}
        made = self.called(node, {**others, data: padded, index: self.call(aten.where.self, mask, places, outside)})
        return None if made is None else self.call(aten.slice.Tensor, made, axis, 0, shape[axis])

    def _place_of_writing(self, node: fx.Node) -> tuple[Any, int, fx.Node | None]:
        """What is written to, and the first axis that has selected places there."""
        data = node.args[0]
        if node.target is aten.index_put.default:
            named = [(axis, one) for axis, one in enumerate(node.args[1]) if one is not None]
            # Places of one axis each, so that values have the selected axis where the first of them is.
            if any(one.meta["val"].dim() != 1 for _, one in named) or [axis for axis, _ in named] != list(
                range(named[0][0], named[-1][0] + 1)
            ):
                return data, 0, None
            return data, *next(((axis, one) for axis, one in named if one in self.of), (0, None))
        axis, index = node.args[1] % max(data.meta["val"].dim(), 1), node.args[2]
        return data, axis, index if index in self.of and self.of[index].axis == axis else None


def extent(node: fx.Node, axis: int) -> sympy.Expr:
    """An extent of a node's value."""
    value = node.meta["val"]
    return _expression((value if isinstance(value, Tensor) else pytree.tree_leaves(value)[0]).shape[axis])


def _expression(size: int | torch.SymInt) -> sympy.Expr:
    return size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)


def is_alike_along(one: fx.Node, axis: int) -> bool:
    """Whether an argument is no tensor, or the same along an axis, which is counted from the end."""
    value = one.meta["val"]
    if not isinstance(value, Tensor):
        return True
    return value.dim() < -axis or value.shape[axis] == 1
