"""Write a loop's body as a function, and call the functions that repeat it (:mod:`tvmake.frontend.lowering.loop_functions`).

Values of the enclosing blocks that a body reads become loop-carried values that it returns unchanged. An array of which each step
writes one row is not a loop-carried value: the functions collect the rows.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm

from tvmake.frontend.lowering.complex_arithmetic import Pair
from tvmake.frontend.lowering.loop_functions import MOST_ITERATIONS, Body, add_loop, add_module
from tvmake.frontend.lowering.recurrent import emit_recurrence
from tvmake.frontend.stablehlo.conversion import Conversion, Value, extents
from tvmake.frontend.stablehlo.loop_buffers import BufferRead, LoopBuffer
from tvmake.frontend.stablehlo.loops.cells import CellMatcher, RecurrentCell
from tvmake.frontend.stablehlo.loops.linear import LinearAnalysis
from tvmake.frontend.stablehlo.loops.parameters import Parameters
from tvmake.frontend.stablehlo.sizes.arithmetic import (
    LARGEST_SIZE,
    as_sizes,
    expression,
    plain,
)
from tvmake.ir.expressions import bindings, is_call, variables

from tvm import relax, tirx  # isort: skip


SLOW_CELL = (
    "a loop of LSTM, GRU or tanh cells whose weights are inputs of the program calls kernels in each step, about 0.1 ms each; "
    "with constant weights it is one kernel (in jax: export a function that closes over them)"
)

MOVES = ("astype", "broadcast_to", "permute_dims", "reshape", "squeeze")
"""Operators whose results have the values of their operand."""


@dataclass(frozen=True)
class Counter:
    """A loop-carried integer that counts the steps of a loop."""

    number: int
    """Its number among the loop-carried values."""
    begin: Any
    """Its first value: an int or an expression."""
    stride: int
    count: Any
    """The number of steps: an int, an expression, or an int64 scalar that depends on data."""

    @property
    def size(self) -> Any:
        """The number of steps, if it follows from dimensions."""
        return None if isinstance(self.count, relax.Expr) and not tvm.ir.is_prim_expr(self.count) else self.count


def write_row(conversion: Conversion, values: list[Any]) -> LoopBuffer:
    """Note the row that a step writes to a buffer.

    Raises:
        BufferRead: it is anything but the row whose index is the number of the step, from either end.
    """
    buffer, update, *starts = values
    [counter] = conversion.counters or [None]
    sizes, shape = extents(update), buffer.shape
    is_row = conversion.sizes.have_same_shape(sizes, (1, *shape[1:])) and isinstance(starts[0], np.ndarray)
    if counter is None or not is_row or buffer.row is not None:
        raise BufferRead(buffer)
    index = plain(starts[0][()])
    is_forward = conversion.sizes.are_equal(index, counter)
    if not is_forward and not conversion.sizes.are_equal(index, shape[0] - 1 - counter):
        raise BufferRead(buffer)
    return LoopBuffer(buffer.number, shape, conversion.reshape(update, shape[1:]), not is_forward)


@dataclass
class _Attempt:
    """What is known of a body before it is converted."""

    buffers: list[int]
    """Numbers of loop-carried values to which each step writes a row."""
    constants: dict[Any, np.ndarray] = field(default_factory=dict)
    """Large constants in the body, by their digest."""


def convert_loop(
    conversion: Conversion, op: Any, values: list[Value], scope: Mapping[Any, Value], control: Any
) -> list[Value]:
    """The results of a loop.

    Args:
        conversion: the conversion of the enclosing function.
        op: the loop.
        values: the initial loop-carried values.
        scope: the values of the enclosing blocks.
        control: the loop's counter, or the condition's initial value, a boolean scalar.
    """
    body = op.regions[1].blocks[0]
    buffers = [
        number
        for number, value in enumerate(values)
        if isinstance(control, Counter)
        and control.size is not None
        and not isinstance(value, Pair | LoopBuffer)
        and len(extents(value))
        and conversion.sizes.are_equal(extents(value)[0], control.size)
        and len(list(body.arguments[number].uses)) == 1
    ]
    attempt = _Attempt(buffers)
    while True:
        try:
            loop = _Loop(conversion, op, values, scope, control, attempt)
            results = loop.convert()
        except BufferRead as read:
            if read.buffer.number not in attempt.buffers or read.buffer.owner is not op:
                raise
            attempt.buffers.remove(read.buffer.number)
            continue
        if results is not None:
            return results


class _Loop:
    """One attempt to convert a loop."""

    def __init__(
        self,
        outer: Conversion,
        op: Any,
        values: list[Value],
        scope: Mapping[Any, Value],
        control: Any,
        attempt: _Attempt,
    ):
        self.outer, self.op, self.values, self.scope = outer, op, values, scope
        self.control, self.attempt = control, attempt
        self.counter: Counter | None = control if isinstance(control, Counter) else None
        self.inner = outer.child()
        self.parameters = Parameters(outer, self.inner)
        self.condition_block, self.block = (region.blocks[0] for region in op.regions)

    def convert(self) -> list[Value] | None:
        """The results; None if there are further constants to pass."""
        returned = list(self.block.operations)[-1].operands
        states, invariants = [], []
        for number, argument in enumerate(self.block.arguments):
            if self.counter is not None and number == self.counter.number:
                continue
            if returned[number] == argument:
                invariants.append(number)
            elif number not in self.attempt.buffers:
                states.append(number)
        inside = {number: self.parameters.state(self.values[number]) for number in states}
        inside |= {number: self.parameters.invariant(self.values[number]) for number in invariants}
        captured = {value: self.parameters.invariant(self.scope[value]) for value in self._find_captured()}
        hoisted = self.inner.hoisted = {}
        for key, array in self.attempt.constants.items():
            hoisted[key] = self.parameters.constant(array)
        count = None if self.counter is None or self.counter.size is None else self.parameters.size(self.counter.size)
        buffers = {
            number: [self.parameters.size(size) for size in extents(self.values[number])]
            for number in self.attempt.buffers
        }
        begin = None if self.counter is None else self.parameters.size(self.counter.begin)
        self.parameters.add_dimensions()

        first = relax.Var("first", relax.TensorType([], "int64"))
        condition = relax.Var("condition", relax.TensorType([], "bool"))
        builder = self.inner.builder
        builder.dimensions = ()
        failure: BufferRead | None = None
        results: list[Any] = []
        with builder.function("main", [first, condition, *self.parameters.variables]):
            with builder.dataflow():
                output: Any = condition
                try:
                    inside = {number: self._wide(value) for number, value in inside.items()}
                    captured = {value: self._wide(known) for value, known in captured.items()}
                    if self.counter is not None:
                        inside[self.counter.number] = self._count(self.counter, begin, count, first)
                    for number, shape in buffers.items():
                        inside[number] = LoopBuffer(number, tuple(shape), owner=self.op)
                    arguments = [inside[number] for number in range(len(self.values))]
                    results, output = self._convert_body(arguments, captured, condition, states)
                    cell = self._find_cell(results, inside, states)
                except BufferRead as read:
                    failure = read
                returned_value = builder.emit_output(output)
            builder.emit_func_output(returned_value)
        if failure is not None:
            raise failure
        if self.inner.pending:
            self.attempt.constants |= self.inner.pending
            return None
        rows = [results[number] for number in self.attempt.buffers]
        return self._call(states, rows) if cell is None else self._emit_cell(*cell, inside, states, rows)

    def _convert_body(
        self, arguments: list[Any], captured: Mapping[Any, Any], condition: Any, states: list[int]
    ) -> tuple[list[Any], Any]:
        """The body's results, and what its function returns."""
        results: list[Any] = self.inner.block(self.block, arguments, captured)
        for number in self.attempt.buffers:
            if not isinstance(results[number], LoopBuffer) or results[number].row is None:
                raise BufferRead(arguments[number])
        proceed: Any = condition
        if self.counter is None:
            [proceed] = self.inner.block(self.condition_block, results, captured)
        rows = [results[number].row for number in self.attempt.buffers]
        fields = self._fields(results, states)
        return results, relax.Tuple([self.inner.whole(value) for value in (proceed, *fields, *rows)])

    def _find_cell(
        self, results: list[Any], inside: Mapping[int, Any], states: list[int]
    ) -> tuple[RecurrentCell, Any] | None:
        """The recurrent cell that the body is, and the array whose rows it reads."""
        counter, reads = self.counter, self.inner.row_reads
        arrays = list({array: None for array, _ in reads.values()})
        if counter is None or (counter.begin, counter.stride) != (0, 1) or counter.size is None or len(arrays) != 1:
            return None
        sizes, [array], [step] = self.inner.sizes, arrays, list(self.inner.counters)
        is_state = all(isinstance(results[number], relax.Var) for number in states) and all(
            isinstance(value, relax.Var) and value.ty.ndim == 2 and str(value.ty.dtype) == "float32"
            for value in (inside[number] for number in states)
        )
        if self.outer.hoisted is not None or not is_state or array not in self.parameters.variables:
            return None
        length = extents(array)[0]
        indices = [index for _, index in reads.values()]
        is_reversed = not sizes.are_equal(indices[0], step)
        wanted = length - 1 - step if is_reversed else step
        count = sizes.counters[step]
        if not sizes.are_equal(length, count) or not all(sizes.are_equal(index, wanted) for index in indices):
            return None
        analysis = LinearAnalysis(
            self.inner.builder.lookup_binding,
            self.parameters.known,
            [inside[number] for number in states],
            dict.fromkeys(reads, array),
        )
        matcher = CellMatcher(analysis, array, is_reversed)
        cell = matcher.match({inside[number]: results[number] for number in states})
        if cell is None:
            return None
        new = next(results[number] for number in states if inside[number].same_as(cell.states[0]))
        rows = [results[number] for number in self.attempt.buffers]
        is_output = all(
            row.is_reversed == is_reversed and isinstance(row.row, relax.Var) and matcher.is_same(row.row, new)
            for row in rows
        )
        return (cell, array) if is_output else None

    def _emit_cell(
        self,
        cell: RecurrentCell,
        array: Any,
        inside: Mapping[int, Any],
        states: list[int],
        rows: list[LoopBuffer],
    ) -> list[Value]:
        """The results of a loop that is a recurrent layer."""
        outer, variables = self.outer, self.parameters.variables
        data = self.parameters.arguments[variables.index(array)]
        numbers = {inside[number]: number for number in states}
        initial = [outer.whole(self.values[numbers[state]]) for state in cell.states]
        shapes = [extents(value) for value in initial]
        with_direction = [outer.reshape(value, (1, *shape)) for value, shape in zip(initial, shapes, strict=True)]
        outputs, *final = emit_recurrence(outer.builder, cell.layer, data, cell.weights, with_direction)
        results = list(self.values)
        for state, value, shape in zip(cell.states, final, shapes, strict=True):
            results[numbers[state]] = outer.reshape(value, shape)
        for row in rows:
            results[row.number] = outer.reshape(outputs, extents(outer.whole(self.values[row.number])))
        assert self.counter is not None
        results[self.counter.number] = self._last(self.counter)
        return results

    def _find_captured(self) -> list[Any]:
        """The values of the enclosing blocks that the regions read."""
        found: dict[Any, None] = {}
        for region in self.op.regions:
            for operand in _operands(region):
                if operand in self.scope:
                    found[operand] = None
        return list(found)

    def _wide(self, value: Any) -> Any:
        """A value in the body; those that repeat along an axis are broadcast."""
        if isinstance(value, Pair):
            return Pair(*map(self._wide, value))
        if isinstance(value, tuple):
            _, narrow, shape = value
            return self.inner.broadcast(narrow, shape)
        return value

    def _count(self, counter: Counter, begin: Any, count: Any, first: Any) -> Value:
        """The counter in the body."""
        variable = tirx.Var("step", "int64")
        self.inner.sizes.bind_counter(variable, LARGEST_SIZE if count is None else count)
        self.inner.counters[variable] = first
        value = np.empty((), object)
        value[()] = self.inner.sizes.simplify(expression(begin) + variable * counter.stride)
        start = self.values[counter.number]
        return as_sizes(value, getattr(start, "declared", str(start.dtype)))

    def _fields(self, results: list[Value], states: list[int]) -> list[Any]:
        """The loop-carried values that the body returns, in the order of its parameters; those that are unchanged are not read."""
        changed = iter([part for number in states for part in _parts(results[number])])
        unread = relax.const(True, "bool")
        return [
            unread if is_unchanged else self._cast_to_type(next(changed), variable)
            for variable, is_unchanged in zip(self.parameters.variables, self.parameters.is_unchanged, strict=True)
        ]

    def _cast_to_type(self, value: Any, variable: Any) -> Any:
        """A result with the type of its parameter."""
        value, kind = self.inner.whole(value), variable.ty
        if self.inner.sizes.have_same_shape(extents(value), extents(variable)):
            return value
        return self.inner.builder.match_cast(value, kind)

    def _call(self, states: list[int], rows: list[LoopBuffer]) -> list[Value]:
        outer, parameters = self.outer, self.parameters
        kinds = [variable.ty for variable in parameters.variables]
        changed = [kind for kind, is_same in zip(kinds, parameters.is_unchanged, strict=True) if not is_same]
        row_kinds = [relax.TensorType(list(row.row.ty.shape.values), row.row.ty.dtype) for row in self._whole(rows)]
        module = self.inner.builder.finalize()
        if self._is_cell_of_inputs(module["main"]):
            outer.slow.append(SLOW_CELL)
        function = add_module(outer.builder, module)
        body = Body(function, kinds, parameters.is_unchanged, changed, row_kinds, self.counter is not None)
        loop = add_loop(outer.builder, body)
        if self.counter is None:
            condition, count = self.control, relax.const(MOST_ITERATIONS, "int64")
            if outer.taken is not None:
                condition = outer.emit(relax.op.logical_and(condition, outer.taken()))
        else:
            condition, count = relax.const(True, "bool"), outer.number(self.counter.count)
        result = outer.emit(relax.Call(loop, [relax.const(0, "int64"), count, condition, *parameters.arguments]))
        fields = iter([outer.emit(relax.TupleGetItem(result, index)) for index in range(len(result.ty.fields))][1:])

        def cast(shape: Any, dtype: str) -> Any:
            return outer.builder.match_cast(next(fields), relax.TensorType(list(shape), dtype))

        results = list(self.values)
        for number in states:
            parts = [cast(extents(part), str(outer.whole(part).ty.dtype)) for part in _parts(self.values[number])]
            results[number] = Pair(*parts) if isinstance(self.values[number], Pair) else parts[0]
        for row in rows:
            initial = outer.whole(self.values[row.number])
            value = cast(extents(initial), str(initial.ty.dtype))
            results[row.number] = outer.emit(relax.op.flip(value, 0)) if row.is_reversed else value
        if self.counter is not None:
            results[self.counter.number] = self._last(self.counter)
        return results

    def _is_cell_of_inputs(self, function: Any) -> bool:
        """Whether a body computes activations, and multiplies by a matrix that is not a constant and the same in all steps."""
        parameters = self.parameters
        inputs = {
            variable
            for variable, is_same in zip(parameters.variables, parameters.is_unchanged, strict=True)
            if is_same and variable not in parameters.known
        }
        moved = set(inputs)
        has_activation = has_matmul = False
        for binding in bindings(function):
            value: Any = getattr(binding, "value", None)
            if is_call(value, *MOVES) and moved.issuperset(variables(value)):
                moved.add(binding.var)
            has_activation |= is_call(value, "tanh", "sigmoid")
            has_matmul |= is_call(value, "matmul") and not moved.isdisjoint(value.args)
        return has_activation and has_matmul

    def _whole(self, rows: list[LoopBuffer]) -> list[LoopBuffer]:
        return [LoopBuffer(row.number, row.shape, self._row(row), row.is_reversed) for row in rows]

    def _row(self, row: LoopBuffer) -> Any:
        if not isinstance(row.row, np.ndarray):
            return row.row
        return relax.Var("row", relax.TensorType(row.row.shape, str(row.row.dtype)))

    def _last(self, counter: Counter) -> Value:
        """The counter after the loop."""
        start = self.values[counter.number]
        dtype = getattr(start, "declared", str(start.dtype))
        if counter.size is not None:
            value = np.empty((), object)
            value[()] = self.outer.sizes.simplify(counter.begin + counter.size * counter.stride)
            return as_sizes(value, dtype)
        emit = self.outer.emit
        length = emit(relax.op.multiply(counter.count, relax.const(counter.stride, "int64")))
        last = emit(relax.op.add(length, self.outer.number(counter.begin)))
        return emit(relax.op.astype(last, dtype)) if dtype != "int64" else last


def _parts(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Pair) else [value]


def _operands(region: Any) -> Iterator[Any]:
    for block in region.blocks:
        for op in block.operations:
            yield from op.operands
            for inner in op.regions:
                yield from _operands(inner)
