"""Find the states to which each run appends rows along one axis, and prove it.

The next value has to be the state with new rows behind it: either ``concat(state, new)``, or several of them, each with a part of
the state such as a layer, put together again. Operators between them only move elements, or widen them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tvm
import tvm_ffi

from tvmake.artifact.signature import Signature
from tvmake.codegen.caches.sizes import Sizes
from tvmake.ir.bounds import bounds_of
from tvmake.ir.expressions import bindings, dtype_name, is_call, operator_name
from tvmake.ir.views import REORDERING, ROUND, View, follow, follow_part, whole_view

from tvm import relax, tirx  # isort: skip


@dataclass(frozen=True)
class Append:
    """A concatenation of rows of a state with new ones."""

    new: Any
    """The new rows."""
    view: View
    """The concatenation as a view of the state's next value."""
    axis: int
    """Its axis of rows."""
    past: Any
    """The number of rows before."""


@dataclass(frozen=True)
class Cache:
    """A state to which each run appends rows."""

    number: int
    """Its index among the states."""
    axis: int
    """The axis of rows."""
    past: Any
    """The dimension that counts them."""
    total: Any
    """Their number in the next value."""
    most_past: int
    """The most rows before a run."""
    capacity: int
    """The rows of the buffer: the most before a run, and its new ones."""
    appends: Mapping[Any, Append]
    """By the variable of the concatenation."""


@dataclass(frozen=True)
class Recognition:
    """The states of a network to which it appends rows."""

    caches: tuple[Cache, ...] = ()
    obstacles: Mapping[str, str] = field(default_factory=dict)
    """For other states whose size has a maximum and changes: why they are copied, by name."""


class NetworkValues:
    """What is known of the variables of ``main``."""

    def __init__(self, module: "tvm.IRModule"):
        self.module = module
        self.definitions = {
            binding.var: binding.value for binding in bindings(module["main"]) if isinstance(binding, relax.VarBinding)
        }
        self.sizes = Sizes(self.definitions)

    def definition(self, value: Any) -> Any:
        """What a variable is bound to, through other variables."""
        while isinstance(value, relax.Var) and value in self.definitions:
            value = self.definitions[value]
        return value

    def follow(self, value: Any, view: View) -> View | None:
        """A view after an operator; None if its result is not a view."""
        if isinstance(value, relax.TupleGetItem):
            return follow_part(value, self.definition(value.tuple_value), view)
        return follow(value, view, self.sizes.value, self.module)

    def views(self, source: Any) -> dict[Any, View]:
        """The variables that are views of a tensor."""
        views = {source: whole_view(source.ty.shape.values, dtype_name(source.ty))}
        for variable, value in self.definitions.items():
            operand = first_operand(value, self.definition)
            if operand is not None and operand in views and (view := self.follow(value, views[operand])) is not None:
                views[variable] = view
        return views


def first_operand(value: Any, definition: Callable[[Any], Any]) -> Any:
    """The tensor whose elements an operator may move."""
    if isinstance(value, relax.Var):
        return value
    if isinstance(value, relax.TupleGetItem):
        split = definition(value.tuple_value)
        return split.args[0] if is_call(split, "split") else None
    if is_call(value, "concat"):
        parts = value.args[0]
        return parts.fields[0] if isinstance(parts, relax.Tuple) and len(parts.fields) == 1 else None
    if is_call(value, "call_tir"):
        return value.args[1].fields[0] if value.args[1].fields else None
    return value.args[0] if operator_name(value) and value.args else None


class _Obstacle(Exception):
    """Why a state is copied."""


def recognize_caches(module: "tvm.IRModule", signature: Signature) -> Recognition:
    """Find the states to which each run appends rows, up to a known maximum."""
    if not signature.states:
        return Recognition()
    values, bounds = NetworkValues(module), bounds_of(module)
    main = module["main"]
    results = values.definition(main.body.body)
    caches: list[Cache] = []
    obstacles: dict[str, str] = {}
    for number, state in enumerate(signature.states):
        parameter = main.params[len(signature.inputs) + number]
        try:
            if not isinstance(results, relax.Tuple):
                break
            found = _growth(parameter, results.fields[len(signature.outputs) + number], bounds)
            if found is not None and any(isinstance(value, relax.If) for value in values.definitions.values()):
                raise _Obstacle("the network has branches")
            if found is not None:
                caches.append(_recognize(values, number, parameter, results, signature, found))
        except _Obstacle as obstacle:
            obstacles[state.name] = str(obstacle)
    totals = {cache.past: cache.total for cache in reversed(caches)}
    equal = [cache for cache in caches if tvm_ffi.structural_equal(totals[cache.past], cache.total)]
    return Recognition(tuple(equal), obstacles)


@dataclass(frozen=True)
class _Growth:
    axis: int
    past: Any
    total: Any
    most_past: int
    capacity: int


def _growth(state: Any, following: Any, bounds: Mapping[str, Any]) -> _Growth | None:
    """The axis along which a state grows; None if it does not, or without limit."""
    before, after = list(state.ty.shape.values), list(following.ty.shape.values)
    changed = [
        axis
        for axis, sizes in enumerate(zip(before, after, strict=True))
        if not tvm_ffi.structural_equal(*map(tvm.sym.Analyzer().simplify, sizes))
    ]
    if len(changed) != 1 or not isinstance(before[changed[0]], tirx.Var):
        return None
    (axis,) = changed
    past = before[axis]
    _, most = bounds.get(str(past.name), (0, None))
    if most is None:
        return None
    analyzer = tvm.sym.Analyzer()
    total = analyzer.simplify(after[axis])
    new = analyzer.simplify(total - past)
    count = int(new) if isinstance(new, tirx.IntImm) else (bounds.get(str(getattr(new, "name", "")), (0, None))[1] or 1)
    if count < 1 or any(past.same_as(extent) for other, extent in enumerate(before) if other != axis):
        return None
    return _Growth(axis, past, total, most, most + count)


def _recognize(
    values: NetworkValues, number: int, parameter: Any, results: Any, signature: Signature, growth: _Growth
) -> Cache:
    views = values.views(parameter)
    pieces = _Pieces(values, views, growth)
    following = results.fields[len(signature.outputs) + number]
    appends: dict[Any, Append] = {}
    own_dtype = dtype_name(parameter.ty)
    for offsets, concat, place in pieces.of(following):
        past_view, new = pieces.concats[concat]
        axis = int(values.definition(concat).attrs.axis) % len(past_view.shape)
        view = replace(past_view, shape=tuple(map(tvm.sym.Analyzer().simplify, concat.ty.shape.values)))
        _prove_position(view, axis, growth.axis)
        _prove_identity(view, place, offsets)
        if any(
            kind != ROUND or dtype not in (view.dtype, own_dtype) for kind, dtype in (*view.steps, *place.steps)
        ) or not _keeps_values(view.dtype, own_dtype):
            raise _Obstacle("its rows are computed with before the next run takes them")
        if concat in appends:
            raise _Obstacle("its next value has the same rows twice")
        appends[concat] = Append(new, view, axis, growth.past)
    return Cache(number, growth.axis, growth.past, growth.total, growth.most_past, growth.capacity, appends)


def _keeps_values(narrow: str, wide: str) -> bool:
    return narrow == wide or (wide == "float32" and narrow in ("float16", "bfloat16"))


def _prove_position(view: View, axis: int, of_state: int) -> None:
    """A concatenation's rows have to be rows of the state, in the same order, and all else independent of the row."""
    variables = view.variables()
    row = variables[axis]
    for position, index in enumerate(view.simple_indices(variables)):
        uses = any(used.same_as(row) for used in tirx.analysis.undefined_vars(index))
        if (position == of_state) != uses or (uses and not index.same_as(row)):
            raise _Obstacle("its rows are appended along another axis")


def _prove_identity(view: View, place: View, offsets: Sequence[int]) -> None:
    """An element of the next value has to have the position of the same element in the state."""
    variables = place.variables()
    analyzer = place.analyzer(variables)
    for index, variable, offset in zip(view.index(place.index(variables)), variables, offsets, strict=True):
        if not tvm_ffi.structural_equal(analyzer.simplify(index - variable), tirx.IntImm("int64", offset)):
            raise _Obstacle("its next value has its rows at other positions")


class _Pieces:
    """The concatenations of which a state's next value consists."""

    def __init__(self, values: NetworkValues, views: Mapping[Any, View], growth: _Growth):
        self._values, self._views, self._growth = values, views, growth
        self.concats: dict[Any, tuple[View, Any]] = {}
        """Those that append, by variable: the state's rows before, and the new ones."""

    def of(self, expression: Any) -> list[tuple[tuple[int, ...], Any, View]]:
        """Offsets in the expression, the variable of a concatenation, and the part as a view of it."""
        while isinstance(self._values.definitions.get(expression), relax.Var):
            expression = self._values.definitions[expression]
        value = self._values.definitions.get(expression)
        if value is not None and is_call(value, "concat"):
            return self._concatenation(expression, value)
        if value is not None and operator_name(value) in (*REORDERING, "astype"):
            inner = self.of(value.args[0])
            if len(inner) == 1:
                ((_, concat, view),) = inner
                if (moved := self._values.follow(value, view)) is not None:
                    return [((0,) * len(moved.shape), concat, moved)]
        raise _Obstacle("its next value is not the state with new rows behind it")

    def _concatenation(self, variable: Any, value: Any) -> list[tuple[tuple[int, ...], Any, View]]:
        operands = list(value.args[0].fields) if isinstance(value.args[0], relax.Tuple) else []
        if len(operands) == 1:
            return self.of(operands[0])
        shape = list(variable.ty.shape.values)
        axis = int(value.attrs.axis) % len(shape)
        view = self._views.get(operands[0]) if len(operands) == 2 else None
        if view is not None and tvm_ffi.structural_equal(view.shape[axis], self._growth.past):
            self.concats[variable] = view, operands[1]
            return [((0,) * len(shape), variable, whole_view(shape, dtype_name(variable.ty)))]
        pieces, begin = [], 0
        for operand in operands:
            extent = operand.ty.shape.values[axis]
            if not isinstance(extent, tirx.IntImm):
                raise _Obstacle("its next value is not the state with new rows behind it")
            for offsets, concat, place in self.of(operand):
                moved = tuple(offset + begin * (number == axis) for number, offset in enumerate(offsets))
                pieces.append((moved, concat, place))
            begin += int(extent)
        return pieces
