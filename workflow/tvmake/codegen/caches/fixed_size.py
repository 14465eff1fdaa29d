"""Find the states of fixed size into which each run scatters rows, such as a static cache of keys, and prove it.

The next value has to be the state with other values at some positions, and nothing else may read the state before.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi

from tvmake.artifact.signature import Signature
from tvmake.codegen.caches.recognition import NetworkValues
from tvmake.ir.expressions import bindings, is_call, operator_name, variables
from tvmake.ir.views import REORDERING, View

from tvm import relax, tirx  # isort: skip

SCATTERS = ("scatter_elements", "scatter_nd")


@dataclass(frozen=True)
class FixedCache:
    """A state into which each run scatters values."""

    number: int
    """Its index among the states."""
    scatter: Any
    """The variable of the scatter."""
    view: View
    """What it scatters into, as a view of the state."""


def recognize_fixed_caches(module: "tvm.IRModule", signature: Signature) -> tuple[FixedCache, ...]:
    """Find the states into which each run scatters values."""
    values, main = NetworkValues(module), module["main"]
    results = values.definition(main.body.body)
    if not isinstance(results, relax.Tuple) or any(
        isinstance(value, relax.If) for value in values.definitions.values()
    ):
        return ()
    found = (
        _recognize(values, number, main, results.fields[len(signature.outputs) + number], len(signature.inputs))
        for number in range(len(signature.states))
    )
    return tuple(cache for cache in found if cache is not None)


def _recognize(values: NetworkValues, number: int, main: Any, following: Any, inputs: int) -> FixedCache | None:
    state = main.params[inputs + number]
    if not all(isinstance(extent, tirx.IntImm) for extent in state.ty.shape.values):
        return None
    *moves, scatter = _chain(values, following)
    call: Any = values.definitions.get(scatter)
    if not is_call(call, *SCATTERS) or str(call.attrs.reduction) != "update":
        return None
    views = values.views(state)
    view = views.get(call.args[0])
    if view is None or view.steps or str(scatter.ty.dtype) != str(state.ty.dtype):
        return None
    place: View | None = view
    for move in reversed(moves):
        place = values.follow(values.definitions[move], place) if place is not None else None
    if place is None or place.steps or not _is_identity(place, state):
        return None
    readers = [
        binding.var
        for binding in bindings(main)
        if binding.var not in views and any(variable in views for variable in variables(binding.value))
    ]
    reads_once = len(readers) == 1 and readers[0].same_as(scatter)
    return FixedCache(number, scatter, view) if reads_once and not _reads_operands(call, views) else None


def _chain(values: NetworkValues, variable: Any) -> Iterator[Any]:
    """The variables of operators that move elements, from the last one, and the one before them."""
    while True:
        value = values.definitions.get(variable)
        if isinstance(value, relax.Var):
            variable = value
            continue
        yield variable
        if value is None or operator_name(value) not in REORDERING:
            return
        variable = value.args[0]


def _is_identity(place: View, state: Any) -> bool:
    axes = place.variables()
    shape = state.ty.shape.values
    return len(place.shape) == len(shape) and all(
        tvm_ffi.structural_equal(left, right)
        for left, right in (*zip(place.shape, shape, strict=True), *zip(_simple(place, axes), axes, strict=True))
    )


def _simple(place: View, axes: list[Any]) -> list[Any]:
    """Indices of an element; that along an axis of one element is its variable."""
    indices = place.simple_indices(axes)
    return [
        axis if isinstance(extent, tirx.IntImm) and int(extent) == 1 else index
        for axis, extent, index in zip(axes, place.shape, indices, strict=True)
    ]


def _reads_operands(call: Any, views: Any) -> bool:
    """Whether the positions or the new values come from the state."""
    return any(variable in views for argument in call.args[1:] for variable in variables(argument))
