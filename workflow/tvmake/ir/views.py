"""Tensors whose elements are those of another tensor: followed through operators that only move elements, so that nothing is copied."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from tvmake.ir.expressions import constant, dtype_name, is_call, operator_name

from tvm import relax, tirx  # isort: skip

Indices = Sequence[Any]
"""An integer expression for each axis."""

ROUND, SCALE = "astype", "multiply"

Step = tuple[str, Any]
"""An element-wise operation: ``ROUND`` with a dtype, or ``SCALE`` with a number."""

REORDERING = ("permute_dims", "expand_dims", "squeeze", "reshape")
"""Operators whose result has each element of the operand once."""


@dataclass(frozen=True)
class View:
    """A tensor with elements of another one."""

    shape: tuple[Any, ...]
    dtype: str
    index: Callable[[Indices], list[Any]]
    """The indices in the other tensor of an element."""
    steps: tuple[Step, ...] = ()
    """What is done with an element, in order."""

    def apply_steps(self, value: Any) -> Any:
        """An element of the view, from that of the other tensor; also for vectors."""
        for kind, operand in self.steps:
            if kind == ROUND:
                value = tirx.Cast(with_lanes(operand, value), value)
            else:
                value = value * tirx.const(operand, str(value.ty.dtype))
        return value

    def analyzer(self, indices: Sequence[Any]) -> "tvm.sym.Analyzer":
        """An analyzer that knows the range of a variable for each axis."""
        analyzer = tvm.sym.Analyzer()
        for variable, extent in zip(indices, self.shape, strict=True):
            analyzer.bind(variable, tvm.ir.Range.from_min_extent(_int64(0), extent))
        return analyzer

    def simple_indices(self, indices: Sequence[Any]) -> list[Any]:
        """The indices in the other tensor of the element at these variables, simplified."""
        analyzer = self.analyzer(indices)
        return [analyzer.simplify(index) for index in self.index(indices)]

    def variables(self) -> list[Any]:
        """A new variable for each axis."""
        return [tirx.Var(f"i{axis}", "int64") for axis in range(len(self.shape))]


def with_lanes(dtype: str, value: Any) -> str:
    """The type of vectors as long as a value's, of elements of another type."""
    lanes = str(value.ty.dtype).partition("x")[2]
    return f"{dtype.partition('x')[0]}x{lanes}" if lanes else dtype.partition("x")[0]


def whole_view(shape: Sequence[Any], dtype: str) -> View:
    """All elements of a tensor."""
    return View(tuple(shape), dtype, list)


def follow(
    value: Any, view: View, size_of: Callable[[Any], np.ndarray | None], kernels: Mapping[Any, Any]
) -> View | None:
    """The result of an operator as a view of what its first operand is a view of; None if it is not one.

    Args:
        size_of: the value of a tensor of integers, if it is known.
        kernels: the module's functions.
    """
    name = operator_name(value)
    handler = _HANDLERS.get(name)
    if handler is not None:
        return handler(value, view)
    if name == "concat":
        return view if isinstance(value.args[0], relax.Tuple) and len(value.args[0].fields) == 1 else None
    if name == "take":
        return _take(value, view, size_of(value.args[1]))
    if name == "strided_slice":
        return _slice(value, view)
    if name == "multiply":
        return _multiply(value, view)
    return _kernel(value, view, kernels) if name == "call_tir" else None


def follow_part(part: "relax.TupleGetItem", split: Any, view: View) -> View | None:
    """A part of a split view."""
    if not is_call(split, "split"):
        return None
    axis = int(split.attrs.axis) % len(view.shape)
    lengths = [field.shape[axis] for field in split.ty.fields if field.shape is not None]
    if len(lengths) != len(split.ty.fields) or not all(isinstance(length, tirx.IntImm) for length in lengths):
        return None
    begin = sum(map(int, lengths[: int(part.index)]))
    return _change(view, part.ty, lambda indices: _replace_index(indices, axis, indices[axis] + begin))


def _change(view: View, ty: Any, index: Callable[[list[Any]], list[Any]]) -> View | None:
    """A view with other axes: ``index`` gives the indices in the view of an element."""
    if ty.shape is None:
        return None
    analyzer = tvm.sym.Analyzer()
    shape = tuple(analyzer.simplify(extent) for extent in ty.shape)
    return replace(view, shape=shape, index=lambda indices: view.index(index(list(indices))))


def _replace_index(indices: Sequence[Any], axis: int, index: Any) -> list[Any]:
    return [*indices[:axis], index, *indices[axis + 1 :]]


def _permute(value: Any, view: View) -> View | None:
    rank = len(view.shape)
    axes = [int(axis) % rank for axis in value.attrs.axes] if value.attrs.axes is not None else [*range(rank)][::-1]
    return _change(view, value.ty, lambda indices: [indices[axes.index(axis)] for axis in range(rank)])


def _spread(value: Any, view: View) -> View | None:
    added = len(value.ty.shape) - len(view.shape)
    units = [_is_unit(extent) for extent in view.shape]

    def index(indices: list[Any]) -> list[Any]:
        return [_int64(0) if unit else i for i, unit in zip(indices[added:], units, strict=True)]

    return _change(view, value.ty, index)


def _tile(value: Any, view: View) -> View | None:
    added = len(value.ty.shape) - len(view.shape)
    repeats = [int(count) for count in value.attrs.repeats]
    repeats = [1] * (len(value.ty.shape) - len(repeats)) + repeats
    old = view.shape
    if any(
        count != 1 and not isinstance(extent, tirx.IntImm) for count, extent in zip(repeats[added:], old, strict=True)
    ):
        return None

    def index(indices: list[Any]) -> list[Any]:
        kept = zip(indices[added:], repeats[added:], old, strict=True)
        return [i if count == 1 else tirx.floormod(i, extent) for i, count, extent in kept]

    return _change(view, value.ty, index)


def _repeat(value: Any, view: View) -> View | None:
    if value.attrs.axis is None:
        return None
    axis, count = int(value.attrs.axis) % len(view.shape), int(value.attrs.repeats)
    return _change(
        view, value.ty, lambda indices: _replace_index(indices, axis, tirx.floordiv(indices[axis], _int64(count)))
    )


def _reshape(value: Any, view: View) -> View | None:
    """Axes of one element come and go; others are joined or divided, as far as their extents are constant."""
    if value.ty.shape is None:
        return None
    analyzer = tvm.sym.Analyzer()
    new_shape = [analyzer.simplify(extent) for extent in value.ty.shape]
    groups = _groups(list(view.shape), new_shape)
    if groups is None:
        return None
    rank = len(view.shape)

    def index(indices: list[Any]) -> list[Any]:
        result: list[Any] = [_int64(0)] * rank
        for old, new in groups:
            if len(old) == len(new) == 1:
                result[old[0]] = indices[new[0]]
                continue
            linear: Any = _int64(0)
            for axis in new:
                linear = linear * new_shape[axis] + indices[axis]
            for axis in reversed(old):
                result[axis] = linear if axis == old[0] else tirx.floormod(linear, view.shape[axis])
                linear = tirx.floordiv(linear, view.shape[axis])
        return result

    return _change(view, value.ty, index)


def _groups(old: list[Any], new: list[Any]) -> list[tuple[list[int], list[int]]] | None:
    """Axes of two shapes with the same elements, without those of one element."""
    olds = [axis for axis, extent in enumerate(old) if not _is_unit(extent)]
    news = [axis for axis, extent in enumerate(new) if not _is_unit(extent)]
    groups: list[tuple[list[int], list[int]]] = []
    while olds and news:
        left, right = [olds.pop(0)], [news.pop(0)]
        if not _same(old[left[0]], new[right[0]]):
            while (sizes := (_product(old, left), _product(new, right)))[0] != sizes[1]:
                if None in sizes:
                    return None
                (shorter, rest) = (left, olds) if sizes[0] < sizes[1] else (right, news)  # type: ignore[operator]
                if not rest:
                    return None
                shorter.append(rest.pop(0))
            if _product(old, left) is None:
                return None
        groups.append((left, right))
    return None if olds or news else groups


def _product(shape: Sequence[Any], axes: Sequence[int]) -> int | None:
    extents = [shape[axis] for axis in axes]
    return math.prod(map(int, extents)) if all(isinstance(extent, tirx.IntImm) for extent in extents) else None


def _cast(value: Any, view: View) -> View:
    dtype = dtype_name(value.ty)
    return replace(view, dtype=dtype, steps=(*view.steps, (ROUND, dtype)))


def _take(value: Any, view: View, chosen: np.ndarray | None) -> View | None:
    if value.attrs.axis is None or chosen is None or chosen.size != 1 or chosen.ndim > 1:
        return None
    axis = int(value.attrs.axis) % len(view.shape)
    extent, number = view.shape[axis], chosen.flat[0]
    if not isinstance(extent, tirx.IntImm) or not isinstance(number, (int, np.integer)):
        return None
    if not -int(extent) <= number < int(extent):
        return None
    at = _int64(int(number) % int(extent))
    keeps = chosen.ndim == 1

    def index(indices: list[Any]) -> list[Any]:
        return _replace_index(indices, axis, at) if keeps else [*indices[:axis], at, *indices[axis:]]

    return _change(view, value.ty, index)


def _slice(value: Any, view: View) -> View | None:
    parts = [_integers(argument) for argument in value.args[1:]]
    if len(parts) < 3 or any(part is None for part in parts):
        return None
    axes, begins, _, *strides = parts
    if strides and any(stride != 1 for stride in strides[0] or ()):
        return None
    shifts: dict[int, int] = {}
    for axis, begin in zip(axes or (), begins or (), strict=True):
        axis %= len(view.shape)
        extent = view.shape[axis]
        if not isinstance(extent, tirx.IntImm):
            if begin != 0 or not _same(value.ty.shape[axis], extent):
                return None
            continue
        shifts[axis] = min(max(begin + int(extent) if begin < 0 else begin, 0), int(extent))
    return _change(view, value.ty, lambda indices: [i + shifts.get(axis, 0) for axis, i in enumerate(indices)])


def _multiply(value: Any, view: View) -> View | None:
    """An element-wise factor, as of keys before their product with queries."""
    factor = constant(value.args[1])
    if factor is None or factor.size != 1 or factor.ndim > len(view.shape):
        return None
    return replace(view, steps=(*view.steps, (SCALE, factor.flat[0].item())))


def _kernel(value: Any, view: View, kernels: Mapping[Any, Any]) -> View | None:
    """A kernel of an importer that only moves elements of its one tensor, such as a tile."""
    function, (_, *sizes) = kernels[value.args[0]], value.args[1].fields
    numbers = function.params[1 : 1 + len(sizes)]
    if not isinstance(value.ty, relax.TensorType) or len(function.params) != 2 + len(sizes):
        return None
    if any(hasattr(parameter.ty, "shape") for parameter in numbers):
        return None
    given = function.params[0]
    stores: list[Any] = []
    blocks: list[Any] = []
    tvm_ffi.structural_walk(function.body, [(tirx.BufferStore, stores.append), (tvm.s_tir.SBlock, blocks.append)])
    blocks = [block for block in blocks if block.iter_vars]
    if len(stores) != 1 or len(blocks) != 1:
        return None
    (store,), (block,) = stores, blocks
    axes = [axis.var for axis in block.iter_vars]
    is_move = isinstance(store.value, tvm.ir.TensorLoad) and store.value.source.same_as(given)
    if not is_move or len(axes) != len(store.indices) or not all(map(lambda a, i: a.same_as(i), axes, store.indices)):
        return None
    known = dict(zip(numbers, sizes, strict=True))
    for extent, actual in zip(given.ty.shape, view.shape, strict=True):
        if isinstance(extent, tirx.Var):
            known.setdefault(extent, actual)
    extents = dict(zip(axes, value.ty.shape, strict=True))
    analyzer = tvm.sym.Analyzer()

    def drop_remainder(node: Any) -> Any:
        if node.a in extents and _same(analyzer.simplify(node.b), analyzer.simplify(extents[node.a])):
            return node.a
        return node

    moved = [_substitute(index, known) for index in store.value.indices]
    moved = [tvm_ffi.structural_map(index, (tirx.FloorMod, drop_remainder)) for index in moved]
    return _change(
        view,
        value.ty,
        lambda indices: [_substitute(index, dict(zip(axes, indices, strict=True))) for index in moved],
    )


def _substitute(expression: Any, values: Mapping[Any, Any]) -> Any:
    return tvm_ffi.structural_map(expression, (tvm.ir.Var, lambda variable: values.get(variable, variable)))


def _integers(value: Any) -> list[int] | None:
    fields = value.fields if isinstance(value, relax.Tuple) else getattr(value, "values", None)
    if fields is None:
        return None
    numbers = [getattr(field, "value", field) for field in fields]
    return [int(number) for number in numbers] if all(_is_number(number) for number in numbers) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, tirx.IntImm))


def _is_unit(extent: Any) -> bool:
    return isinstance(extent, tirx.IntImm) and int(extent) == 1


def _same(left: Any, right: Any) -> bool:
    return bool(tvm_ffi.structural_equal(left, right))


def _int64(number: int) -> Any:
    return tirx.IntImm("int64", number)


_HANDLERS: dict[str, Callable[[Any, View], View | None]] = {
    "permute_dims": _permute,
    "expand_dims": _reshape,
    "squeeze": _reshape,
    "reshape": _reshape,
    "broadcast_to": _spread,
    "tile": _tile,
    "repeat": _repeat,
    "astype": _cast,
}
