"""Functions that compute any number of independent rows with functions for fixed numbers of rows.

- ``<function>_padded`` copies rows from a first one, calls the function, and cuts its results. The last row replaces
  missing ones: it is computed without overflow or NaN if the others are.
- ``rows`` chooses such a function, or ``halves`` for more rows than the function has.
- ``halves`` calls ``rows`` twice and joins the results, so that the depth of calls grows with the logarithm of the number of rows.

Functions that choose contain nothing but calls. Repair: `storage-of-branches`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm

from tvmake.codegen.shapes.choices import any_shape, choose, sequence
from tvmake.codegen.shapes.independent_rows import RowAxes

from tvm import relax, te, tirx  # isort: skip

PADDED, ROWS, HALVES = "padded", "rows", "halves"


@dataclass(frozen=True)
class RowGroup:
    """Functions that differ in their number of rows only."""

    dimension: str
    """The name of the number of rows."""
    sizes: Mapping[str, int]
    """Of the other dimensions."""
    functions: Mapping[int, str]
    """Names by the number of rows."""
    starts: Mapping[int, int]
    """The smallest number of rows for which each function is chosen; see ``row_ranges``."""

    def name(self, kind: str) -> str:
        """``rows_length128``."""
        return "_".join([kind, *(f"{name}{size}" for name, size in self.sizes.items())])


@dataclass(frozen=True)
class RowFunction:
    """The function ``rows`` of a group: of the inputs, the first row with the number of rows, and all weights."""

    group: RowGroup
    variable: Any
    inputs: Sequence[Any]
    """Its parameters for the network's inputs."""


def add_row_functions(
    module: "tvm.IRModule", group: RowGroup, axes: RowAxes, weights: Mapping[str, Any]
) -> tuple["tvm.IRModule", RowFunction]:
    """Add the functions for a group, and unscheduled kernels.

    Args:
        module: the functions of the group.
        axes: of the rows in inputs and outputs.
        weights: variables of all weights, by name.
    """
    writer = _RowFunctionBuilder(module, group, axes, weights)
    rows = writer.declare()
    halves = writer.add(group.name(HALVES), writer.write_halves(rows))
    padded = {size: writer.add(f"{name}_{PADDED}", writer.write_padded(size)) for size, name in group.functions.items()}
    function = writer.write_choice(padded, halves)
    writer.builder.update_func(rows, function)
    # The builder drops the module's attributes.
    functions = dict(writer.builder.get().functions_items())
    changed = tvm.IRModule(functions, attrs=module.attrs, global_infos=module.global_infos)
    return changed, RowFunction(group, rows, function.params[: len(axes.inputs)])


class _Signature:
    """The parameters of a function under construction."""

    def __init__(self, inputs: Sequence[Any], axes: RowAxes, dimension: str, weights: Mapping[str, Any], sizes: str):
        self.total = tirx.Var(dimension, "int64")
        self.inputs = [
            relax.Var(str(given.name), with_rows(given.ty, axis, self.total))
            for given, axis in zip(inputs, axes.inputs, strict=True)
        ]
        self.sizes = [tirx.Var(name, "int64") for name in sizes.split()]
        self.weights = {name: relax.Var(name, weight.ty) for name, weight in weights.items()}
        shape = relax.Var("sizes", relax.ShapeType(self.sizes))
        self.parameters = [*self.inputs, shape, *self.weights.values()]

    def call(self, function: Any, *sizes: Any) -> Any:
        """A call of another function with such parameters."""
        return relax.Call(function, [*self.inputs, relax.ShapeExpr(list(sizes)), *self.weights.values()])


class _RowFunctionBuilder:
    def __init__(self, module: "tvm.IRModule", group: RowGroup, axes: RowAxes, weights: Mapping[str, Any]):
        self.builder = relax.BlockBuilder(module)
        self.group, self.axes, self.weights = group, axes, weights
        self.module = module
        self.largest = module[group.functions[max(group.functions)]]
        self.results = list(getattr(self.largest.ret_ty, "fields", None) or [self.largest.ret_ty])
        self.returned = any_shape(self.largest.ret_ty)

    def signature(self, sizes: str) -> _Signature:
        inputs = self.largest.params[: len(self.axes.inputs)]
        return _Signature(inputs, self.axes, self.group.dimension, self.weights, sizes)

    def add(self, name: str, function: Any) -> Any:
        return self.builder.add_func(function, name)

    def declare(self) -> Any:
        """The variable of ``rows``, which is defined later."""
        own = self.signature("first count")
        call = relax.Call(relax.ExternFunc("declared"), [own.inputs[0]], ty_args=[self.returned])
        return self.add(self.group.name(ROWS), self._function(own, self._bind(call)))

    def _function(self, own: _Signature, body: Any) -> Any:
        return relax.Function(own.parameters, body, self.returned, False)

    def _write(self, own: _Signature, write: Callable[[Any], list[Any]]) -> Any:
        """A function whose bindings a builder normalises."""
        builder = relax.BlockBuilder()
        with builder.function("function", own.parameters, private=True):
            fields = write(builder)
            builder.emit_func_output(relax.Tuple(fields) if isinstance(self.returned, relax.TupleType) else fields[0])
        return self._function(own, builder.get()["function"].body)

    def write_padded(self, size: int) -> Any:
        """The function that computes up to ``size`` rows, from the first one."""
        own = self.signature("first count")
        first, count = own.sizes
        rows = tirx.const(size, "int64")
        variable = self.module.get_global_var(self.group.functions[size])
        function = self.module[variable]

        def write(builder: Any) -> list[Any]:
            taken = [
                given
                if axis is None
                else builder.emit(
                    relax.call_tir(self._take(given.ty, axis, rows), [given, first], with_rows(given.ty, axis, rows))
                )
                for given, axis in zip(own.inputs, self.axes.inputs, strict=True)
            ]
            # Parameters may be on a device, which the casts add.
            arguments = [
                builder.match_cast(value, parameter.ty)
                for value, parameter in zip(taken, function.params, strict=False)
            ]
            arguments += [own.weights[str(parameter.name)] for parameter in function.params[len(arguments) :]]
            result = builder.emit(relax.Call(variable, arguments))
            return [
                field
                if axis is None
                else builder.emit(relax.call_tir(self._cut(field.ty, axis), [field], with_rows(field.ty, axis, count)))
                for field, axis in zip(self._fields(builder, result), self.axes.outputs, strict=True)
            ]

        return self._write(own, write)

    def write_halves(self, rows: Any) -> Any:
        """The function that calls ``rows`` for two parts, of which the first has complete calls of ``unit`` rows only."""
        own = self.signature("first count unit")
        first, count, unit = own.sizes
        one, two = tirx.const(1, "int64"), tirx.const(2, "int64")
        half = unit * tirx.floordiv(tirx.floordiv(count - one, unit) + one, two)

        def write(builder: Any) -> list[Any]:
            parts = [
                self._fields(builder, builder.emit(own.call(rows, start, number)))
                for start, number in ((first, half), (first + half, count - half))
            ]
            joined = []
            for before, after, kind, axis in zip(*parts, self.results, self.axes.outputs, strict=True):
                if axis is None:
                    joined.append(before)
                    continue
                casts = [
                    builder.match_cast(part, with_rows(kind, axis, number))
                    for part, number in ((before, half), (after, count - half))
                ]
                joined.append(builder.emit(relax.call_tir(self._join(kind, axis), casts, with_rows(kind, axis, count))))
            return joined

        return self._write(own, write)

    def write_choice(self, padded: Mapping[int, Any], halves: Any) -> Any:
        """``rows``: a chain of conditions on the number of rows."""
        own = self.signature("first count")
        first, count = own.sizes

        def choose_size(sizes: Sequence[int]) -> Any:
            size, *smaller = sizes
            unit = tirx.const(size, "int64")
            fits = self._bind(own.call(padded[size], first, count))
            repeats = self._bind(own.call(halves, first, count, unit))
            chosen = choose(count <= unit, fits, repeats, self.returned)
            start = tirx.const(self.group.starts[size], "int64")
            return choose(count >= start, chosen, choose_size(smaller), self.returned) if smaller else chosen

        return self._function(own, choose_size(sorted(padded, reverse=True)))

    def _bind(self, call: Any) -> Any:
        result = relax.Var("result", self.returned)
        return sequence([relax.VarBinding(result, call)], result)

    def _fields(self, builder: Any, result: Any) -> list[Any]:
        if not isinstance(result.ty, relax.TupleType):
            return [result]
        return [builder.emit(relax.TupleGetItem(result, index)) for index in range(len(result.ty.fields))]

    def _take(self, kind: Any, axis: int, size: Any) -> Any:
        """Copy some rows from a first one; the last row again after the end."""
        total, first = tirx.Var("total", "int64"), tirx.Var("first", "int64")
        source = te.placeholder(_extents(kind, axis, total), _dtype(kind), name="source")

        def take(*indices: Any) -> Any:
            row = tirx.min(first + indices[axis], total - tirx.const(1, "int64"))
            return source(*indices[:axis], row, *indices[axis + 1 :])

        taken = te.compute(_extents(kind, axis, size), take, name="taken")
        return self._add_kernel("take_rows", [source, first, taken])

    def _cut(self, kind: Any, axis: int) -> Any:
        """Copy the first rows."""
        count = tirx.Var("count", "int64")
        source = te.placeholder(_extents(kind, axis, kind.shape[axis]), _dtype(kind), name="source")
        cut = te.compute(_extents(kind, axis, count), lambda *indices: source(*indices), name="cut")
        return self._add_kernel("cut_rows", [source, cut])

    def _join(self, kind: Any, axis: int) -> Any:
        """Copy the rows of two tensors."""
        split, rest, count = (tirx.Var(name, "int64") for name in ("split", "rest", "count"))
        before, after = (
            te.placeholder(_extents(kind, axis, size), _dtype(kind), name=name)
            for name, size in (("before", split), ("after", rest))
        )

        def join(*indices: Any) -> Any:
            row = indices[axis]
            return tirx.if_then_else(
                row < split, before(*indices), after(*indices[:axis], row - split, *indices[axis + 1 :])
            )

        joined = te.compute(_extents(kind, axis, count), join, name="joined")
        return self._add_kernel("join_rows", [before, after, joined])

    def _add_kernel(self, name: str, arguments: list[Any]) -> Any:
        return self.builder.add_func(te.create_prim_func(arguments).without_attr("global_symbol"), name)


def with_rows(kind: Any, axis: int | None, size: Any) -> Any:
    """A tensor's type with another number of rows; it is in a buffer, without a device of one function's."""
    return relax.TensorType(list(kind.shape) if axis is None else _extents(kind, axis, size), _dtype(kind))


def _extents(kind: Any, axis: int, size: Any) -> list[Any]:
    return [size if position == axis else extent for position, extent in enumerate(kind.shape)]


def _dtype(kind: Any) -> str:
    return str(kind.dtype.dtype)
