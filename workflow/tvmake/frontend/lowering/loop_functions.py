"""Loops as functions that call each other.

TVM's virtual machine has no loops, but functions may call themselves. ``loop`` runs half of the iterations, then the other half, so
that the depth of calls grows with the logarithm of their number, and so does the number of copies of a row of the results:

- ``loop``: calls ``leaf`` for one iteration, or if the condition no longer holds; ``halves`` for more iterations.
- ``halves``: calls ``loop`` twice, and joins the rows of the results.
- ``leaf``: calls ``once`` if the condition holds, and ``none`` otherwise.
- ``once``: one iteration; ``none`` returns the loop-carried values and no rows.

Functions that choose contain nothing but calls. Repair: `storage-of-branches`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.attributes import CPU_ONLY

from tvm import relax, tirx  # isort: skip

MOST_ITERATIONS = (1 << 31) - 1
"""Iterations of a loop without another limit."""

REASON = "loops whose number of iterations is known only at run time"


@dataclass(frozen=True)
class Body:
    """A loop's body as a function, and the types of its values."""

    function: Any
    """The global variable of a function of the iteration, the condition and the loop-carried values."""
    parameters: Sequence[Any]
    """Types of the loop-carried values; a shape passes dimensions to the body."""
    is_unchanged: Sequence[bool]
    """For each of them, whether the body returns it unchanged."""
    results: Sequence[Any]
    """Types of the loop-carried values after any number of iterations; without those that are unchanged."""
    rows: Sequence[Any]
    """Types of the body's other results."""
    condition_holds: bool
    """Whether the condition is true for all iterations."""


def with_dimensions(size: Any, dimensions: Mapping[Any, Any]) -> Any:
    return tvm_ffi.structural_map(size, (tvm.ir.Var, lambda variable: dimensions.get(variable, variable)))


def add_module(builder: Any, module: "tvm.IRModule") -> Any:
    """Add a module's functions to the builder's; returns the global variable of its ``main``."""
    added: dict[Any, Any] = {}
    for variable, function in module.functions_items():
        name = "body" if variable.name_hint == "main" else variable.name_hint
        if isinstance(function, relax.Function):
            function = function.without_attr("global_symbol").without_attr("num_input")
        added[variable] = builder.add_func(function, name)
    for variable, function in module.functions_items():
        if isinstance(function, relax.Function):
            function = function.without_attr("global_symbol").without_attr("num_input")
            callbacks = (tvm.ir.GlobalVar, lambda called: added.get(called, called))
            builder.update_func(added[variable], tvm_ffi.structural_map(function, callbacks))
    return added[module.get_global_var("main")]


def _sizes(kind: Any) -> Sequence[Any]:
    """The dimensions of a parameter: of a tensor, or those that a shape passes to the function."""
    return list(kind.values if isinstance(kind, relax.ShapeType) else kind.shape.values)


class _Function:
    """A function under construction: its parameters with dimensions of their own."""

    def __init__(self, body: Body):
        sizes = {
            size: tirx.Var(str(size.name), "int64")
            for kind in body.parameters
            for size in _sizes(kind)
            if isinstance(size, tirx.Var)
        }

        def own(kind: Any) -> Any:
            if isinstance(kind, relax.ShapeType):
                return relax.ShapeType([with_dimensions(size, sizes) for size in kind.values])
            if not isinstance(kind.shape, relax.ShapeExpr):
                return kind
            return relax.TensorType([with_dimensions(size, sizes) for size in kind.shape.values], kind.dtype)

        self.body = body
        scalar = relax.TensorType([], "int64")
        self.first, self.count = relax.Var("first", scalar), relax.Var("count", scalar)
        self.condition = relax.Var("condition", relax.TensorType([], "bool"))
        self.values = [relax.Var(f"value_{index}", own(kind)) for index, kind in enumerate(body.parameters)]
        self.results = [own(kind) for kind in body.results]
        self.rows = [own(kind) for kind in body.rows]
        of_any_count = [relax.TensorType(dtype=kind.dtype, ndim=kind.ndim + 1) for kind in self.rows]
        self.returned = relax.TupleType([relax.TensorType([], "bool"), *self.results, *of_any_count])
        self.parameters = [self.first, self.count, self.condition, *self.values]
        self.builder = relax.BlockBuilder()

    def emit(self, value: Any) -> Any:
        return self.builder.emit(value)

    def call(self, function: Any, arguments: Sequence[Any]) -> list[Any]:
        """The fields of a call's result."""
        result = self.emit(relax.Call(function, list(arguments)))
        return [self.emit(relax.TupleGetItem(result, index)) for index in range(len(result.ty.fields))]

    def with_results(self, results: Sequence[Any]) -> list[Any]:
        """The loop-carried values after some iterations."""
        changed = iter(results)
        return [
            value if is_unchanged else next(changed)
            for value, is_unchanged in zip(self.values, self.body.is_unchanged, strict=True)
        ]

    def as_parameters(self, results: Sequence[Any]) -> list[Any]:
        """Results as loop-carried values: of the same shapes, or of shapes with names."""
        casts = []
        for result, kind in zip(results, self.results, strict=True):
            if not isinstance(kind.shape, relax.ShapeExpr):
                kind = relax.TensorType([tirx.Var("size", "int64") for _ in range(kind.ndim)], kind.dtype)
            casts.append(self.builder.match_cast(result, kind))
        return casts

    def choose(self, condition: Any, then: Any, otherwise: Any) -> Any:
        branches = (relax.SeqExpr([], relax.Call(function, self.parameters)) for function in (then, otherwise))
        return self.emit(relax.If(condition, *branches))


def _define(builder: Any, body: Body, name: str, write: Callable[[_Function], Any], stub: Any | None = None) -> Any:
    """Add a function of the iteration, the count, the condition and the loop-carried values; returns its global variable."""
    function = _Function(body)
    with function.builder.function(name, function.parameters, private=True):
        function.builder.emit_func_output(write(function))
    written = function.builder.get()[name]
    written = relax.Function(written.params, written.body, function.returned, True).with_attr(CPU_ONLY, REASON)
    if stub is None:
        return builder.add_func(written, name)
    builder.update_func(stub, written)
    return stub


def add_loop(builder: Any, body: Body) -> Any:
    """Add the functions that repeat a body; returns the global variable of ``loop``."""
    one = relax.const(1, "int64")

    def once(function: _Function) -> Any:
        condition, *results = function.call(body.function, [function.first, function.condition, *function.values])
        states, rows = results[: len(body.is_unchanged)], results[len(body.is_unchanged) :]
        condition = condition if condition.ty.ndim == 0 else function.emit(relax.op.reshape(condition, []))
        changed = [state for state, is_same in zip(states, body.is_unchanged, strict=True) if not is_same]
        casts = [
            function.builder.match_cast(state, kind) if isinstance(kind.shape, relax.ShapeExpr) else state
            for state, kind in zip(changed, function.results, strict=True)
        ]
        return relax.Tuple([condition, *casts, *(function.emit(relax.op.expand_dims(row, 0)) for row in rows)])

    def none(function: _Function) -> Any:
        unchanged = [value for value, is_same in zip(function.values, body.is_unchanged, strict=True) if not is_same]
        rows = [
            function.emit(relax.op.zeros(relax.ShapeExpr([tirx.IntImm("int64", 0), *kind.shape.values]), kind.dtype))
            for kind in function.rows
        ]
        return relax.Tuple([function.condition, *unchanged, *rows])

    def leaf(function: _Function) -> Any:
        is_one = function.emit(relax.op.equal(function.count, one))
        return function.choose(function.emit(relax.op.logical_and(is_one, function.condition)), run, skip)

    def halves(function: _Function) -> Any:
        emit, count = function.emit, len(body.results)
        half = emit(relax.op.floor_divide(function.count, relax.const(2, "int64")))
        condition, *before = function.call(loop, [function.first, half, function.condition, *function.values])
        states = function.with_results(function.as_parameters(before[:count]))
        middle, rest = emit(relax.op.add(function.first, half)), emit(relax.op.subtract(function.count, half))
        condition, *after = function.call(loop, [middle, rest, condition, *states])
        rows = []
        for first, second, kind in zip(before[count:], after[count:], function.rows, strict=True):
            parts = [
                function.builder.match_cast(
                    part, relax.TensorType([tirx.Var("rows", "int64"), *kind.shape.values], kind.dtype)
                )
                for part in (first, second)
            ]
            rows.append(emit(relax.op.concat(parts, 0)))
        return relax.Tuple([condition, *after[:count], *rows])

    def repeat(function: _Function) -> Any:
        is_short = function.emit(relax.op.less_equal(function.count, one))
        ends = function.emit(relax.op.logical_not(function.condition))
        return function.choose(function.emit(relax.op.logical_or(is_short, ends)), end, split)

    loop = _declare(builder, body)
    run, skip = _define(builder, body, "once", once), _define(builder, body, "none", none)
    end, split = _define(builder, body, "leaf", leaf), _define(builder, body, "halves", halves)
    return _define(builder, body, "loop", repeat, loop)


def _declare(builder: Any, body: Body) -> Any:
    """The global variable of a function that is defined later."""
    function = _Function(body)
    call = relax.Call(relax.ExternFunc("declared"), [function.first], ty_args=[function.returned])
    stub = relax.Function(function.parameters, relax.SeqExpr([], call), function.returned, False)
    return builder.add_func(stub, "loop")
