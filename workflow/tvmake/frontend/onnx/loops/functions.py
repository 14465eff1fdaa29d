"""Convert a Loop to functions that call each other (:mod:`tvmake.frontend.lowering.loop_functions`)."""

from collections.abc import Callable, Sequence
from typing import Any

import onnx
import tvm
import tvm_ffi

from tvmake.errors import InputError
from tvmake.frontend.lowering.loop_functions import MOST_ITERATIONS, Body, add_loop, add_module, with_dimensions
from tvmake.frontend.onnx.dynamic.shape_values import ShapeValues, shape_of
from tvmake.frontend.onnx.loops.sequences import FIRST_STATE

from tvm import relax, tirx  # isort: skip

ImportBody = Callable[[onnx.GraphProto], tvm.IRModule]
"""Imports a graph whose inputs have types."""


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
    loop = add_loop(builder, body)
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
            tirx.Var(builder.get_unique_name("size"), "int64") if size is None else with_dimensions(size, dimensions)
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
        add_module(extents.builder, module),
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
