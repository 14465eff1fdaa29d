"""The kernel of a recurrent layer: one loop over time, for sequences of any length.

Equations are those of ONNX's ``LSTM``, ``GRU`` and ``RNN``. The kernel adds the recurrence to the input's part of the gates, which
one matmul computes for all steps before it. It comes scheduled for CPUs: tasks are tiles of sequences, and the weights of
sixteen units are contiguous, so that a tile reads each weight once a step.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Literal

import tvm
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvmake.ir.attributes import CPU_ONLY
from tvmake.ir.dimensions import Extent

from tvm import tirx  # isort: skip

LANES = 16
"""Units whose weights are contiguous. Processors with shorter vectors use several registers."""

ROWS = 4
"""Sequences of a tile: it needs ``ROWS`` · gates vector registers for its sums."""

Value = Any
"""A vector of ``LANES`` float32 elements in a kernel."""

Cell = Literal["lstm", "gru", "rnn"]

GATES: dict[Cell, int] = {"lstm": 4, "gru": 3, "rnn": 1}
"""Gates of a cell, in ONNX's order: input, output, forget, candidate; update, reset, candidate; candidate."""


@dataclass(frozen=True)
class Activation:
    """An activation function of ONNX's recurrent operators, with its parameters."""

    name: str
    alpha: float = 0.0
    beta: float = 0.0

    def __call__(self, x: Value) -> Value:
        return ACTIVATIONS[self.name](x, self.alpha, self.beta)


ACTIVATIONS: dict[str, Callable[[Value, float, float], Value]] = {
    "elu": lambda x, alpha, beta: tirx.Select(x < 0.0, alpha * (tirx.exp(x) - 1.0), x),
    "hardsigmoid": lambda x, alpha, beta: _clip(x * alpha + beta, 0.0, 1.0),
    "leakyrelu": lambda x, alpha, beta: tirx.Select(x < 0.0, x * alpha, x),
    "relu": lambda x, alpha, beta: tirx.max(x, _single(0)),
    "sigmoid": lambda x, alpha, beta: tirx.sigmoid(x),
    "softplus": lambda x, alpha, beta: tirx.max(x, _single(0)) + tirx.log(tirx.exp(-tirx.abs(x)) + 1.0),
    "softsign": lambda x, alpha, beta: x / (tirx.abs(x) + 1.0),
    "tanh": lambda x, alpha, beta: tirx.tanh(x),
    "thresholdedrelu": lambda x, alpha, beta: tirx.Select(x > alpha, x, x * 0.0),
}
"""By ONNX's name in lower case."""


@dataclass(frozen=True)
class Recurrence:
    """What distinguishes the kernels of recurrent layers."""

    cell: Cell
    hidden: int
    """Units of the state."""
    activations: tuple[Activation, ...]
    """As many as ONNX's operator has."""
    directions: tuple[Literal["forward", "reverse"], ...] = ("forward",)
    clip: float | None = None
    """Bound on the absolute values that activations take."""
    resets_matmul: bool = True
    """GRU: whether the reset gate multiplies the matmul with the state, not the state (ONNX: linear_before_reset)."""
    couples_forget: bool = False
    """LSTM: whether the forget gate is one less the input gate (ONNX: input_forget)."""
    has_peepholes: bool = False
    lengths_dtype: str | None = None
    """Element type of the lengths by sequence; None if every sequence has the full length."""
    has_initial_state: bool = True
    """Whether the state before the first step is an argument; it is 0 otherwise."""
    has_weight_zeros: bool = False
    """Whether weights of 8 bits have zero points other than 0."""

    def to_text(self) -> str:
        """All fields as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> "Recurrence":
        """The inverse of :meth:`to_text`."""
        fields = json.loads(text)
        fields["activations"] = tuple(Activation(**activation) for activation in fields["activations"])
        return cls(**{**fields, "directions": tuple(fields["directions"])})

    @property
    def gates(self) -> int:
        """Number of gates."""
        return GATES[self.cell]

    @property
    def blocks(self) -> int:
        """Number of blocks of units."""
        return -(-self.hidden // LANES)

    @property
    def padded_units(self) -> int:
        """Units of all blocks."""
        return self.blocks * LANES

    @property
    def states(self) -> int:
        """Number of states."""
        return 2 if self.cell == "lstm" else 1

    @property
    def has_candidate_bias(self) -> bool:
        """Whether a bias is added to the candidate's matmul with the state, apart from the input's bias."""
        return self.cell == "gru"


def recurrence_kernel(layer: Recurrence, length: Extent, batch: Extent) -> "tvm.tirx.PrimFunc":
    """A scheduled kernel for CPUs.

    Its arguments, with D directions, B sequences, T steps, G gates, and H units that are padded to N blocks of L:

    | argument | shape |
    |---|---|
    | the input's part of the gates | [T, B, D, G, N·L] |
    | recurrent weights | [D, N, H, G, L] |
    | the candidate's recurrent bias (GRU) | [D, N·L] |
    | peepholes of input, output and forget gate (LSTM, optional) | [D, 3, N·L] |
    | initial state, and cell (LSTM); optional | [D, B, H] |
    | lengths of the sequences (optional) | [B] |
    | results: outputs, final state, final cell (LSTM) | [T, D, B, H], [D, B, H] |

    Steps after a sequence's end keep its state and give 0.

    Args:
        layer: the layer.
        length: T, a number or a variable.
        batch: B, a number or a variable.
    """
    with IRBuilder() as builder:
        with T.prim_func(is_private=True, s_tir=True):
            T.func_name("recurrence")
            T.func_attr(ATTRIBUTES)
            loop = RecurrentLoop(layer, length, batch)
            with T.sblock("root"):
                loop.write()
        return builder.get()


REASON = "recurrent layers over a dynamic length, or over many steps,"

OPAQUE = 8
"""``OpPatternKind.kOpaque``: nothing is fused into the kernel."""

ATTRIBUTES = {"tirx.is_scheduled": True, "op_pattern": OPAQUE, "tirx.noalias": True, CPU_ONLY: REASON}
"""Attributes of kernels of recurrent layers."""


def _single(value: float) -> Any:
    return tirx.const(value, "float32")


def _clip(x: Value, low: float, high: float) -> Value:
    return tirx.max(tirx.min(x, _single(high)), _single(low))


def _block(index: Any) -> Any:
    """The units of a block of a padded axis."""
    return tirx.Ramp(index * LANES, 1, LANES)


def declare_argument(name: str, shape: Sequence[Extent], dtype: str = "float32") -> Any:
    """An argument of a kernel."""
    return IRBuilder.name(name, T.match_buffer(T.arg(f"{name}_handle", T.handle()), shape, dtype))


class RecurrentLoop:
    """Writes the kernel of a layer with TVM's IR builder."""

    def __init__(self, layer: Recurrence, length: Extent, batch: Extent):
        self.layer, self.length, self.batch = layer, length, batch
        units, padded, directions = layer.hidden, layer.padded_units, len(layer.directions)
        state = (directions, batch, units)
        self._declare_weights()
        self.bias: Any = declare_argument("bias", (directions, padded)) if layer.has_candidate_bias else None
        self.peepholes: Any = declare_argument("peepholes", (directions, 3, padded)) if layer.has_peepholes else None
        names = ("initial", "initial_cell")[: layer.states] if layer.has_initial_state else ()
        self.initial = [declare_argument(name, state) for name in names]
        lengths = layer.lengths_dtype
        self.lengths: Any = declare_argument("lengths", (batch,), lengths) if lengths else None
        self.outputs = declare_argument("outputs", (length, directions, batch, units))
        self.final = [declare_argument(name, state) for name in ("final", "final_cell")[: layer.states]]

    def _declare_weights(self) -> None:
        """Declare the input's part of the gates, and the recurrent weights."""
        layer = self.layer
        inputs = (self.length, self.batch, len(layer.directions), layer.gates, layer.padded_units)
        self.projected = declare_argument("projected", inputs)
        shape = (len(layer.directions), layer.blocks, layer.hidden, layer.gates, LANES)
        self.weights = declare_argument("weights", shape)

    def write(self) -> None:
        """Write the tasks: tiles of ``ROWS`` sequences in one direction; what remains of the batch are single sequences."""
        batch, directions = self.batch, len(self.layer.directions)
        if isinstance(batch, int) and batch <= ROWS:
            with T.parallel(0, directions) as direction:
                self._write_tile(direction, 0, batch)
            return
        tiles = tirx.floordiv(batch + (ROWS - 1), ROWS) if not isinstance(batch, int) else -(-batch // ROWS)
        with T.parallel(0, tiles * directions) as task:
            direction, first = tirx.floordiv(task, tiles), tirx.floormod(task, tiles) * ROWS
            with T.If(first + ROWS <= batch):
                with T.Then():
                    self._write_tile(direction, first, ROWS)
                with T.Else(), T.serial(0, batch - first) as row:
                    self._write_tile(direction, first + row, 1)

    def _write_tile(self, direction: Any, first: Any, rows: int) -> None:
        RecurrentTile(self, direction, [first + row for row in range(rows)]).write()


class RecurrentTile:
    """Writes the loop over time for the sequences of a tile."""

    def __init__(self, loop: RecurrentLoop, direction: Any, sequences: Sequence[Any]):
        self.loop, self.layer, self.direction, self.sequences = loop, loop.layer, direction, sequences
        self.rows = range(len(sequences))
        self._allocate_states()

    def _allocate_states(self) -> None:
        self.slots: Sequence[Any] = self.rows
        """The positions of the sequences in the buffers of states."""
        # A step reads one of two states, chosen by its parity, and writes the other one.
        self.states = self._buffer("states", 2)
        self.cells: Any = self._buffer("cells") if self.layer.cell == "lstm" else None

    def _buffer(self, name: str, *shape: int) -> Any:
        return IRBuilder.name(name, T.alloc_buffer((*shape, len(self.rows), self.layer.padded_units)))

    def write(self) -> None:
        """Copy the initial state, run all steps, and copy the final state."""
        self.copy_initial_state()
        with T.serial(0, self.loop.length) as step:
            self.write_state(step)
            self.write_outputs(step)
        self.copy_final_state()

    def copy_initial_state(self) -> None:
        """Copy the state before the first step."""
        layer = self.layer
        copies = [self.states] if self.cells is None else [self.states, self.cells]
        for slot, sequence in zip(self.slots, self.sequences, strict=True):
            with T.serial(0, layer.padded_units) as unit:
                for copy, initial in zip(copies, self.loop.initial or [None] * len(copies), strict=True):
                    value = _single(0)
                    if initial is not None:
                        value = tirx.if_then_else(unit < layer.hidden, initial[self.direction, sequence, unit], value)
                    T.buffer_store(copy, value, [0, slot, unit] if copy is self.states else [slot, unit])

    def copy_final_state(self) -> None:
        """Copy the state after the last step."""
        for slot, sequence in zip(self.slots, self.sequences, strict=True):
            with T.serial(0, self.layer.hidden) as unit:
                values = [self.states[tirx.floormod(self.loop.length, 2), slot, unit]]
                if self.cells is not None:
                    values.append(self.cells[slot, unit])
                for final, value in zip(self.loop.final, values, strict=True):
                    T.buffer_store(final, value, [self.direction, sequence, unit])

    def write_state(self, step: Any) -> None:
        """Compute the state after a step."""
        old = tirx.floormod(step, 2)
        new = 1 - old
        {"lstm": self._write_lstm, "gru": self._write_gru, "rnn": self._write_rnn}[self.layer.cell](step, old, new)

    def write_outputs(self, step: Any) -> None:
        """Copy the state after a step to the outputs."""
        for row in self.rows:
            blocks, rest = divmod(self.layer.hidden, LANES)
            with T.serial(0, blocks) as block:
                self._write_output(step, row, _block(block))
            with T.serial(0, rest) as unit:
                self._write_output(step, row, blocks * LANES + unit)

    def _time(self, step: Any, row: int) -> Any:
        """The time of a sequence's step. Backwards, the first step is at the sequence's end."""
        lengths = self.loop.lengths
        backwards = self.loop.length - 1 - step
        if lengths is not None:
            within = tirx.Cast("int64", lengths[self.sequences[row]]) - 1 - tirx.Cast("int64", step)
            backwards = tirx.Select(within >= 0, within, tirx.Cast("int64", step))
            step = tirx.Cast("int64", step)
        if len(self.layer.directions) == 2:
            return tirx.Select(self.direction == 0, step, backwards)
        return backwards if self.layer.directions == ("reverse",) else step

    def _write_output(self, step: Any, row: int, unit: Any) -> None:
        value = self.states[1 - tirx.floormod(step, 2), self.slots[row], unit]
        if self.loop.lengths is not None:
            is_vector = isinstance(unit, tirx.Ramp)
            zero = tirx.Broadcast(_single(0), LANES) if is_vector else _single(0)
            value = tirx.Select(self._is_inside(step, row), value, zero)
        T.buffer_store(self.loop.outputs, value, [self._time(step, row), self.direction, self.sequences[row], unit])

    def _is_inside(self, step: Any, row: int) -> Any:
        return tirx.Cast("int64", step) < tirx.Cast("int64", self.loop.lengths[self.sequences[row]])

    def _keep(self, step: Any, row: int, value: Value, before: Value) -> Value:
        """The new state; the old one after the sequence's end."""
        if self.loop.lengths is None:
            return value
        return tirx.Select(self._is_inside(step, row), value, before)

    @contextmanager
    def _blocks(self, gates: Sequence[int], operand: Callable[[int, Any], Any]) -> Iterator[tuple[Any, Any]]:
        """A loop over blocks of units, with the matmul of an operand and the weights of some gates: ``[row, gate, unit]``."""
        with T.serial(0, self.layer.blocks) as block:
            sums = IRBuilder.name("sums", T.alloc_buffer((len(self.rows), len(gates), LANES), scope="local"))
            lanes = tirx.Ramp(0, 1, LANES)
            for row in self.rows:
                for index, _ in enumerate(gates):
                    T.buffer_store(sums, tirx.Broadcast(_single(0), LANES), [row, index, lanes])
            with T.serial(0, self.layer.hidden) as unit:
                for row in self.rows:
                    for index, gate in enumerate(gates):
                        weight = self.loop.weights[self.direction, block, unit, gate, lanes]
                        total = sums[row, index, lanes] + tirx.Broadcast(operand(row, unit), LANES) * weight
                        T.buffer_store(sums, total, [row, index, lanes])
            yield _block(block), lambda row, index: sums[row, index, lanes]

    def _input_part(self, step: Any, row: int, gate: int, units: Any) -> Value:
        return self.loop.projected[self._time(step, row), self.sequences[row], self.direction, gate, units]

    def _clip(self, x: Value) -> Value:
        return x if self.layer.clip is None else _clip(x, -self.layer.clip, self.layer.clip)

    def _write_rnn(self, step: Any, old: Any, new: Any) -> None:
        (activate,) = self.layer.activations
        with self._blocks([0], lambda row, unit: self.states[old, self.slots[row], unit]) as (units, sums):
            for row in self.rows:
                state = activate(self._clip(self._input_part(step, row, 0, units) + sums(row, 0)))
                before = self.states[old, self.slots[row], units]
                T.buffer_store(self.states, self._keep(step, row, state, before), [new, self.slots[row], units])

    def _write_lstm(self, step: Any, old: Any, new: Any) -> None:
        activate, activate_input, activate_cell = self.layer.activations
        with self._blocks(range(4), lambda row, unit: self.states[old, self.slots[row], unit]) as (units, sums):
            for row in self.rows:

                def gate(number: int, peephole: int | None = None, row: int = row) -> Value:
                    total = self._input_part(step, row, number, units) + sums(row, number)
                    if self.loop.peepholes is not None and peephole is not None:
                        total = (
                            total
                            + self.loop.peepholes[self.direction, peephole, units] * self.cells[self.slots[row], units]
                        )
                    return self._clip(total)

                added = T.bind(activate(gate(0, 0)))
                forget = 1.0 - added if self.layer.couples_forget else activate(gate(2, 2))
                before = self.cells[self.slots[row], units]
                cell = forget * before + added * activate_input(gate(3))
                T.buffer_store(self.cells, self._keep(step, row, cell, before), [self.slots[row], units])
                # The output gate's peephole reads the new cell.
                state = activate(gate(1, 1)) * activate_cell(self.cells[self.slots[row], units])
                before = self.states[old, self.slots[row], units]
                T.buffer_store(self.states, self._keep(step, row, state, before), [new, self.slots[row], units])

    def _write_gru(self, step: Any, old: Any, new: Any) -> None:
        activate, activate_candidate = self.layer.activations

        def gate(number: int, row: int, units: Any, sums: Any) -> Value:
            return activate(self._clip(self._input_part(step, row, number, units) + sums(row, number)))

        def write_state(row: int, units: Any, remembered: Value, update: Value) -> None:
            candidate = activate_candidate(self._clip(self._input_part(step, row, 2, units) + remembered))
            before = self.states[old, self.slots[row], units]
            state = (1.0 - update) * candidate + update * before
            T.buffer_store(self.states, self._keep(step, row, state, before), [new, self.slots[row], units])

        state = lambda row, unit: self.states[old, self.slots[row], unit]  # noqa: E731
        if self.layer.resets_matmul:
            with self._blocks(range(3), state) as (units, sums):
                for row in self.rows:
                    update = T.bind(gate(0, row, units, sums))
                    remembered = sums(row, 2) + self.loop.bias[self.direction, units]
                    write_state(row, units, gate(1, row, units, sums) * remembered, update)
            return
        updates, reset_states = self._buffer("updates"), self._buffer("reset_states")
        with self._blocks(range(2), state) as (units, sums):
            for row in self.rows:
                T.buffer_store(updates, gate(0, row, units, sums), [row, units])
                T.buffer_store(reset_states, gate(1, row, units, sums) * state(row, units), [row, units])
        with self._blocks([2], lambda row, unit: reset_states[row, unit]) as (units, sums):
            for row in self.rows:
                remembered = sums(row, 0) + self.loop.bias[self.direction, units]
                write_state(row, units, remembered, updates[row, units])
