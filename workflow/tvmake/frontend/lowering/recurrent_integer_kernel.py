"""The kernels of an LSTM with 8-bit weights: one for the input's part of the gates, and one for the recurrence.

The semantics are those of ONNX Runtime's ``DynamicQuantizeLSTM`` on one thread. The input is rounded to 8 bits by its range up to the
end of the longest sequence. Each step rounds the state of all sequences by their common range; sequences that ended before the
previous step do not count. Both ranges include 0.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import tvm
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvmake.frontend.lowering.integer_matmul import (
    ALL_LANES,
    NO_INSTRUCTION,
    Dot,
    IntegerMatmul,
    Limits,
    Rounding,
    allocate,
    for_each_tile,
    single,
    spread,
)
from tvmake.frontend.lowering.recurrent_kernel import (
    ATTRIBUTES,
    LANES,
    Recurrence,
    RecurrentLoop,
    RecurrentTile,
    Value,
    declare_argument,
)
from tvmake.ir.attributes import CPU_ONLY, CPU_ONLY_REMEDY
from tvmake.ir.dimensions import Extent

from tvm import tirx  # isort: skip

LAYER = "tvmake.integer_recurrence"
"""Attribute of these kernels: their layer, from which a target writes them with its own instruction."""


def integer_recurrence_kernel(
    layer: Recurrence, length: Extent, batch: Extent, dot: Dot = NO_INSTRUCTION
) -> "tvm.tirx.PrimFunc":
    """The recurrence, scheduled for CPUs.

    Its arguments are those of :func:`~tvmake.frontend.lowering.recurrent_kernel.recurrence_kernel` for an LSTM, but for the recurrent
    weights (K: the number of units, padded to a multiple of the group g):

    | argument | shape |
    |---|---|
    | recurrent weights, int8 | [D, N, K/g, G, L·g] |
    | their scales, float32 | [D, G, N·L] |
    | their sums over all units, each less its zero point, int32 | [D, G, N·L] |
    | their zero points, int32 (optional) | [D, G, N·L] |

    Args:
        layer: the layer.
        length: T, a number or a variable.
        batch: B, a number or a variable.
        dot: the processor's instruction.
    """
    return _kernel("recurrence", layer, lambda: _IntegerLoop(layer, length, batch, dot))


def integer_projection_kernel(
    layer: Recurrence, length: Extent, batch: Extent, inputs: int, dot: Dot = NO_INSTRUCTION
) -> "tvm.tirx.PrimFunc":
    """The input's part of the gates, scheduled for CPUs.

    | argument | shape |
    |---|---|
    | the input, float32 | [T, B, I] |
    | its weights, and what belongs to them, as for the recurrence | |
    | bias, float32 | [D, G, N·L] |
    | lengths of the sequences (optional) | [B] |
    | result, float32, in the order in which a step reads it | [T, D, N, B, G, L] |
    """
    return _kernel("projection", layer, lambda: _Projection(layer, length, batch, inputs, dot))


def _kernel(name: str, layer: Recurrence, declare: Callable[[], Any]) -> "tvm.tirx.PrimFunc":
    with IRBuilder() as builder:
        with T.prim_func(is_private=True, s_tir=True):
            T.func_name(name)
            reason = {
                CPU_ONLY: "LSTMs with 8-bit weights",
                CPU_ONLY_REMEDY: "compile the network without 8-bit weights",
            }
            T.func_attr({**ATTRIBUTES, **reason, LAYER: layer.to_text()})
            kernel = declare()
            with T.sblock("root"):
                kernel.write()
        return builder.get()


def projected_shape(layer: Recurrence, length: Extent, batch: Extent) -> tuple[Extent, ...]:
    """The shape of the input's part of the gates."""
    return (length, len(layer.directions), layer.blocks, batch, layer.gates, LANES)


class _Projection:
    """Writes the matmul of rounded inputs: a task for each tile of rows."""

    def __init__(self, layer: Recurrence, length: Extent, batch: Extent, inputs: int, dot: Dot):
        self.layer, self.length, self.batch, self.inputs, self.dot = layer, length, batch, inputs, dot
        results = (len(layer.directions), layer.gates, layer.padded_units)
        self.data = declare_argument("data", (length, batch, inputs))
        self.matmul = IntegerMatmul(declare_argument, layer, inputs, dot)
        self.bias = declare_argument("bias", results)
        self.lengths = declare_argument("lengths", (batch,), layer.lengths_dtype) if layer.lengths_dtype else None
        self.projected = declare_argument("projected", projected_shape(layer, length, batch))

    def write(self) -> None:
        """Find the range of the input, then round and multiply it."""
        limits = Limits()
        with T.serial(0, self._longest()) as time, T.serial(0, self.batch) as sequence:
            limits.include_row(self.inputs, partial(self._read, (time, sequence)))
        rounding = limits.rounding(self.dot)
        rows, tile = self.length * self.batch, self.dot.rows
        tiles = -(-rows // tile) if isinstance(rows, int) else tirx.floordiv(rows + (tile - 1), tile)
        with T.parallel(0, tiles) as task:
            first = task * tile
            self.matmul.allocate_rows(tile)
            with T.If(first + tile <= rows):
                with T.Then():
                    self._write_rows([first + row for row in range(tile)], rounding)
                with T.Else(), T.serial(0, rows - first) as row:
                    self._write_rows([first + row], rounding)

    def _read(self, position: tuple[Any, Any], column: Any) -> Value:
        return self.data[*position, column]

    def _longest(self) -> Any:
        """The number of steps of the longest sequence."""
        if self.lengths is None:
            return self.length
        longest = allocate("longest", (1,), "int64")
        T.buffer_store(longest, tirx.const(0, "int64"), [0])
        with T.serial(0, self.batch) as sequence:
            T.buffer_store(longest, tirx.max(longest[0], tirx.Cast("int64", self.lengths[sequence])), [0])
        return T.bind(longest[0])

    def _write_rows(self, rows: Sequence[Any], rounding: Rounding) -> None:
        positions = [(tirx.floordiv(row, self.batch), tirx.floormod(row, self.batch)) for row in rows]
        slots = range(len(rows))
        for slot, position in zip(slots, positions, strict=True):
            self.matmul.round_row(slot, partial(self._read, position), rounding)
        gates = range(self.layer.gates)
        with T.serial(0, len(self.layer.directions)) as direction, T.serial(0, self.layer.blocks) as block:
            result = self.matmul.multiply(slots, direction, block, gates, rounding)
            units = tirx.Ramp(block * LANES, 1, LANES)
            for slot, position in zip(slots, positions, strict=True):
                for gate in gates:
                    value = result(slot, gate) + self.bias[direction, gate, units]
                    time, sequence = position
                    T.buffer_store(self.projected, value, [time, direction, block, sequence, gate, ALL_LANES])


class _IntegerLoop(RecurrentLoop):
    """Writes the recurrence: a task for each direction."""

    def __init__(self, layer: Recurrence, length: Extent, batch: Extent, dot: Dot):
        self.dot = dot
        super().__init__(layer, length, batch)

    def _declare_weights(self) -> None:
        self.projected = declare_argument("projected", projected_shape(self.layer, self.length, self.batch))
        self.matmul = IntegerMatmul(declare_argument, self.layer, self.layer.hidden, self.dot)

    def write(self) -> None:
        """Write the loop over time for all sequences in one direction."""
        with T.parallel(0, len(self.layer.directions)) as direction:
            self._write_direction(direction)

    def _write_direction(self, direction: Any) -> None:
        states = allocate("states", (2, self.batch, self.layer.padded_units))
        cells = allocate("cells", (self.batch, self.layer.padded_units))
        self.matmul.allocate_rows(self.batch)

        def tile(rows: Sequence[Any]) -> _IntegerTile:
            return _IntegerTile(self, direction, rows, states, cells)

        with T.serial(0, self.batch) as row:
            tile([row]).copy_initial_state()
        with T.serial(0, self.length) as step:
            limits = Limits()
            with T.serial(0, self.batch) as row:
                limits.include_row(self.layer.hidden, tile([row]).reader_of_range(step))
            rounding = limits.rounding(self.dot)
            old = tirx.floormod(step, 2)
            with T.serial(0, self.batch) as row:
                self.matmul.round_row(row, lambda column: states[old, row, column], rounding)
            with T.serial(0, self.layer.blocks) as block:
                for_each_tile(self.batch, self.dot, lambda rows: tile(rows).write_block(step, block, rounding))
            with T.serial(0, self.batch) as row:
                tile([row]).write_outputs(step)
        with T.serial(0, self.batch) as row:
            tile([row]).copy_final_state()


class _IntegerTile(RecurrentTile):
    """Writes parts of a step for some sequences."""

    def __init__(self, loop: _IntegerLoop, direction: Any, sequences: Sequence[Any], states: Any, cells: Any):
        self.matmul = loop.matmul
        self.all_states = states, cells
        super().__init__(loop, direction, sequences)

    def _allocate_states(self) -> None:
        self.slots = self.sequences
        self.states, self.cells = self.all_states

    def reader_of_range(self, step: Any) -> Callable[[Any], Value]:
        """Reads the state of one sequence before a step by column; 0 if it ended before the previous step."""

        def read(column: Any) -> Value:
            value = self.states[tirx.floormod(step, 2), self.slots[0], column]
            if self.loop.lengths is None:
                return value
            zero = spread(single(0)) if isinstance(column, tirx.Ramp) else single(0)
            return tirx.Select(self._is_inside(step - 1, 0), value, zero)

        return read

    def write_block(self, step: Any, block: Any, rounding: Rounding) -> None:
        """Compute the state of a block of units after a step."""
        self.block, self.rounding = block, rounding
        self.write_state(step)

    def _input_part(self, step: Any, row: int, gate: int, units: Any) -> Value:
        position = self._time(step, row), self.direction, self.block, self.sequences[row], gate
        return self.loop.projected[*position, ALL_LANES]

    @contextmanager
    def _blocks(self, gates: Sequence[int], operand: Callable[[int, Any], Any]) -> Iterator[tuple[Any, Any]]:
        """The current block, and its matmul with the rounded state."""
        result = self.matmul.multiply(self.slots, self.direction, self.block, gates, self.rounding)
        yield tirx.Ramp(self.block * LANES, 1, LANES), result
