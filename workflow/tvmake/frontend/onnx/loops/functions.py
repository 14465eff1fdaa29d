"""Convert a Loop to functions that call each other.

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

import onnx
import tvm
import tvm_ffi

from tvmake.errors import InputError
from tvmake.frontend.onnx.dynamic.shape_values import ShapeValues, shape_of
from tvmake.frontend.onnx.loops.sequences import FIRST_STATE
from tvmake.ir.attributes import CPU_ONLY

from tvm import relax, tirx  # isort: skip

MOST_ITERATIONS = (1 << 31) - 1
"""Iterations of a loop without another limit."""

REASON = "loops whose number of iterations is known only at run time"

ImportBody = Callable[[onnx.GraphProto], tvm.IRModule]
"""Imports a graph whose inputs have types."""


@dataclass(frozen=True)
class Body:
    """A loop's body as a function, and the types of its values."""

    function: Any
    """The global variable of a function of the iteration, the condition and the loop-carried values."""
    parameters: Sequence[Any]
    """Types of the loop-carried values."""
    is_unchanged: Sequence[bool]
    """For each of them, whether the body returns it unchanged."""
    results: Sequence[Any]
    """Types of the loop-carried values after any number of iterations; without those that are unchanged."""
    rows: Sequence[Any]
    """Types of the body's other results."""
    condition_holds: bool
    """Whether the condition is true for all iterations."""


def convert_loop(
    extents: ShapeValues, inputs: Sequence[Any], graph: onnx.GraphProto, import_body: ImportBody, where: str
) -> list[Any]:
    """The results of a prepared Loop: loop-carried values, then rows of all iterations.

    Args:
        extents: known values, and the builder.
        inputs: the largest number of iterations, the condition, and the initial loop-carried values.
        graph: the body.
        import_body: imports the body.
        where: the source, for messages.

    Raises:
        InputError: the shape of a result's rows depends on the data.
    """
    builder = extents.builder
    values = [_tensor(extents, value) for value in inputs[FIRST_STATE:]]
    body, dimensions = _import(extents, values, graph, import_body)
    if any(not isinstance(kind.shape, relax.ShapeExpr) for kind in body.rows):
        problem = f"the shape of a result of {builder.operator} depends on the data"
        raise InputError(where, problem, "Export the loop with results of the same shape in each iteration.")
    loop = _add_functions(builder, body)
    limit, condition = inputs[:2]
    count = (
        relax.const(MOST_ITERATIONS, "int64") if limit is None else _scalar(builder, _tensor(extents, limit), "int64")
    )
    runs = relax.const(True, "bool") if condition is None else _scalar(builder, condition, "bool")
    is_counted = body.condition_holds and (condition is None or _is_true(condition))
    result = builder.emit(relax.Call(loop, [relax.const(0, "int64"), count, runs, *values]))
    fields = [builder.emit(relax.TupleGetItem(result, index)) for index in range(len(result.ty.fields))]

    def cast(value: Any, kind: Any, first: Any | None = None) -> Any:
        """The value with its type in this function; unknown dimensions get names."""
        known = kind.shape.values if isinstance(kind.shape, relax.ShapeExpr) else [None] * kind.ndim
        shape = [
            tirx.Var(builder.get_unique_name("size"), "int64") if size is None else _with_dimensions(size, dimensions)
            for size in known
        ]
        return builder.match_cast(value, relax.TensorType(shape if first is None else [first, *shape], kind.dtype))

    returned = iter(fields[1:])
    results = []
    for value, is_unchanged, kind in zip(values, body.is_unchanged, _all_results(body), strict=True):
        results.append(value if is_unchanged else cast(next(returned), kind))
    if body.rows:
        known = extents.read(limit) if is_counted and limit is not None else None
        size = None if known is None else extents.size(extents.greatest(known.reshape(-1)[0], 0))
        rows_count = tirx.Var(builder.get_unique_name("iterations"), "int64") if size is None else size
        results += [cast(next(returned), kind, rows_count) for kind in body.rows]
    return results


def _all_results(body: Body) -> list[Any]:
    """The results' types, with None for values that are unchanged."""
    results = iter(body.results)
    return [None if is_unchanged else next(results) for is_unchanged in body.is_unchanged]


def _tensor(extents: ShapeValues, value: Any) -> Any:
    value = extents.to_tensor(value)
    return value if isinstance(value, relax.Var | tvm.ir.GenericConst) else extents.builder.emit(value)


def _scalar(builder: Any, value: Any, dtype: str) -> Any:
    value = value if value.ty.ndim == 0 else builder.emit(relax.op.reshape(value, []))
    return value if str(value.ty.dtype.dtype) == dtype else builder.emit(relax.op.astype(value, dtype))


def _is_true(value: Any) -> bool:
    return isinstance(value, tvm.ir.GenericConst) and bool(value.value.numpy().all())


def _with_dimensions(size: Any, dimensions: Mapping[Any, Any]) -> Any:
    return tvm_ffi.structural_map(size, (tvm.ir.Var, lambda variable: dimensions.get(variable, variable)))


def _import(
    extents: ShapeValues, values: Sequence[Any], graph: onnx.GraphProto, import_body: ImportBody
) -> tuple[Body, dict[Any, Any]]:
    """The body as a function of the builder's module, and the dimensions of its parameters in the current function."""
    names: list[tuple[Any, str]] = []  # distinct sizes with their names in the body
    sizes: dict[str, Any] = {}

    def name_of(size: Any) -> str:
        for known, name in names:
            if tvm_ffi.structural_equal(known, size):
                return name
        names.append((size, f"d{len(sizes)}"))
        sizes[names[-1][1]] = size
        return names[-1][1]

    is_kept: list[bool] = []
    for declaration, value in zip(graph.input[FIRST_STATE:], values, strict=True):
        kind, shape = declaration.type.tensor_type, shape_of(value) or [None] * value.ty.ndim
        declared = [dim.WhichOneof("value") is not None for dim in kind.shape.dim]
        if not kind.HasField("shape"):
            declared = [False] * len(shape)
        is_kept.append(all(declared))
        kind.shape.ClearField("dim")
        kind.shape.SetInParent()
        for size, has_size in zip(shape, declared, strict=True):
            dim = kind.shape.dim.add()
            if not has_size or size is None:
                dim.dim_param = f"d{len(sizes)}"
                sizes[dim.dim_param] = size
            elif isinstance(size, tvm.ir.Expr):
                dim.dim_param = name_of(size)
            else:
                dim.dim_value = int(size)

    module = import_body(graph)
    main = module["main"]
    types = [parameter.ty for parameter in main.params[FIRST_STATE:]]
    dimensions: dict[Any, Any] = {}
    for kind in types:
        for size in kind.shape.values:
            if isinstance(size, tirx.Var):
                dimensions[size] = sizes[str(size.name)]
    is_unchanged = [
        value.name == result.name
        for value, result in zip(graph.input[FIRST_STATE:], graph.output[1 : 1 + len(values)], strict=True)
    ]
    returned = list(main.ret_ty.fields) if isinstance(main.ret_ty, relax.TupleType) else [main.ret_ty]
    results = []
    for index, kind in enumerate(returned[1 : 1 + len(values)]):
        if not is_unchanged[index]:
            results.append(types[index] if is_kept[index] else relax.TensorType(dtype=kind.dtype, ndim=kind.ndim))
    body = Body(
        _add_module(extents.builder, module),
        types,
        is_unchanged,
        results,
        returned[1 + len(values) :],
        condition_holds=_condition_holds(graph),
    )
    return body, dimensions


def _condition_holds(graph: onnx.GraphProto) -> bool:
    """Whether the body returns its condition, or a constant true, as its condition."""
    name = graph.output[0].name
    producers = {output: node for node in graph.node for output in node.output}
    while name in producers and producers[name].op_type in ("Identity", "Cast"):
        name = producers[name].input[0]
    constants = {tensor.name: tensor for tensor in graph.initializer}
    is_constant = name in constants and bool(onnx.numpy_helper.to_array(constants[name]).all())
    return name == graph.input[1].name or is_constant


def _add_module(builder: Any, module: "tvm.IRModule") -> Any:
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


class _Function:
    """A function under construction: its parameters with dimensions of their own."""

    def __init__(self, body: Body):
        sizes = {
            size: tirx.Var(str(size.name), "int64")
            for kind in body.parameters
            for size in kind.shape.values
            if isinstance(size, tirx.Var)
        }

        def own(kind: Any) -> Any:
            if not isinstance(kind.shape, relax.ShapeExpr):
                return kind
            return relax.TensorType([_with_dimensions(size, sizes) for size in kind.shape.values], kind.dtype)

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


def _add_functions(builder: Any, body: Body) -> Any:
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
