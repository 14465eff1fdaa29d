"""Recognise LSTM, GRU and plain recurrent cells in a loop's body, whose loop becomes one kernel (:mod:`tvmake.frontend.lowering.recurrent`)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm

from tvmake.frontend.lowering.recurrent import Weights
from tvmake.frontend.lowering.recurrent_kernel import Activation, Cell, Recurrence
from tvmake.frontend.stablehlo.loops.linear import Linear, LinearAnalysis, keeps_features
from tvmake.ir.expressions import is_call

from tvm import relax  # isort: skip

_ACTIVATIONS: dict[Cell, tuple[Activation, ...]] = {
    "lstm": (Activation("sigmoid"), Activation("tanh"), Activation("tanh")),
    "gru": (Activation("sigmoid"), Activation("tanh")),
    "rnn": (Activation("tanh"),),
}


@dataclass(frozen=True)
class RecurrentCell:
    """A cell: how the kernel computes it, and what of the body it consists of."""

    layer: Recurrence
    weights: Weights
    states: tuple[Any, ...]
    """The parameters of the body for the state, and the cell of an LSTM."""


class CellMatcher:
    """Matches the expressions of a body."""

    def __init__(self, analysis: LinearAnalysis, rows: Any, is_reversed: bool):
        self.analysis, self.rows = analysis, rows
        self.direction: Any = "reverse" if is_reversed else "forward"

    def match(self, states: dict[Any, Any]) -> RecurrentCell | None:
        """The cell; None if the body is anything else.

        Args:
            states: for each loop-carried parameter, its value after the step.
        """
        if len(states) == 2:
            for cell, state in ((*states,), (*reversed(states),)):
                if (found := self._lstm(state, cell, states[state], states[cell])) is not None:
                    return found
        if len(states) == 1:
            [(state, new)] = states.items()
            return self._gru(state, new) or self._rnn(state, new)
        return None

    def _lstm(self, state: Any, cell: Any, new_state: Any, new_cell: Any) -> RecurrentCell | None:
        output = self._gate(new_state, lambda rest: self._is_tanh_of(rest, new_cell))
        for kept, added in self._sums(new_cell):
            forget = self._gate(kept, lambda rest: self.is_same(rest, cell))
            for gate, rest in self._products(added):
                gates = [self._sigmoid(gate), output, forget, self._operand(rest, "tanh")]
                if all(part is not None for part in gates):
                    return self._cell("lstm", list(map(self.analysis.of, gates)), (state, cell))
        return None

    def _gate(self, value: Any, is_factor: Callable[[Any], bool]) -> Any:
        """The operand of a sigmoid that is multiplied with a factor; None for other values."""
        gates = (self._sigmoid(gate) for gate, rest in self._products(value) if is_factor(rest))
        return next((gate for gate in gates if gate is not None), None)

    def _is_tanh_of(self, value: Any, operand: Any) -> bool:
        found = self._operand(value, "tanh")
        return found is not None and self.is_same(found, operand)

    def _gru(self, state: Any, new: Any) -> RecurrentCell | None:
        for update, candidate in self._interpolations(state, new):
            inner = self._operand(candidate, "tanh")
            for first, second in self._sums(inner):
                for gate, rest in self._products(second):
                    reset = self._sigmoid(gate)
                    if reset is not None:
                        gates = [update, reset, first]
                        parts = [self.analysis.of(part) for part in gates]
                        return self._cell("gru", parts, (state,), self.analysis.of(rest))
        return None

    def _interpolations(self, state: Any, new: Any) -> Iterator[tuple[Any, Any]]:
        """Pairs of z and n with ``(1 - σ(z)) · n + σ(z) · h`` or ``n + σ(z) · (h - n)``."""
        for first, second in self._sums(new):
            for gate, rest in self._products(second):
                update = self._sigmoid(gate)
                if update is None:
                    continue
                if self.is_same(rest, state):
                    for other, candidate in self._products(first):
                        if self._is_rest(other, gate):
                            yield update, candidate
                difference = self._call(rest, "subtract")
                operands = [] if difference is None else [state, first]
                if operands and all(map(self.is_same, difference.args, operands)):
                    yield update, first

    def _rnn(self, state: Any, new: Any) -> RecurrentCell | None:
        inner = self._operand(new, "tanh")
        return None if inner is None else self._cell("rnn", [self.analysis.of(inner)], (state,))

    def _cell(
        self, kind: Cell, gates: Sequence[Any], states: tuple[Any, ...], candidate: Any = None
    ) -> RecurrentCell | None:
        """The cell of gates that are linear functions of the row and the state, with a GRU's matmul of the candidate and the state."""
        state = states[0]
        if not all(isinstance(gate, Linear) for gate in (*gates, *([candidate] if candidate is not None else []))):
            return None
        is_readable = all(set(gate.weights) <= {self.rows, state} and not gate.is_transposed for gate in gates)
        hidden = int(state.ty.shape.values[-1])
        if not is_readable or any(gate.bias.shape != (hidden,) for gate in gates):
            return None
        inputs = int(self.rows.ty.shape.values[-1])
        from_rows = [gate.weights.get(self.rows, np.zeros((inputs, hidden), "float32")) for gate in gates]
        from_state = [gate.weights.get(state, np.zeros((hidden, hidden), "float32")) for gate in gates]
        state_bias = None
        if kind == "gru":
            if state in gates[2].weights or set(candidate.weights) != {state} or candidate.is_transposed:
                return None
            from_state[2] = candidate.weights[state]
            state_bias = np.concatenate([np.zeros(2 * hidden, "float32"), candidate.bias])

        def stack(matrices: Sequence[np.ndarray]) -> Any:
            return _constant(np.concatenate([matrix.T for matrix in matrices])[None])

        bias = _constant(np.concatenate([gate.bias for gate in gates])[None])
        weights = Weights(
            stack(from_rows), stack(from_state), bias, None if state_bias is None else _constant(state_bias[None])
        )
        layer = Recurrence(kind, hidden, _ACTIVATIONS[kind], (self.direction,))
        return RecurrentCell(layer, weights, states)

    def _lookup(self, value: Any) -> Any:
        """The expression of a value, without reshapes that add or remove axes of size 1."""
        found = self.analysis.lookup(value) if isinstance(value, relax.Var) else value
        while isinstance(found, relax.Var) or (is_call(found, "reshape") and keeps_features(found)):
            inner = found if isinstance(found, relax.Var) else found.args[0]
            value, found = inner, self.analysis.lookup(inner)
            if found is None:
                return value
        return value if found is None else found

    def _call(self, value: Any, *names: str) -> Any:
        found = self._lookup(value)
        return found if is_call(found, *names) else None

    def _operand(self, value: Any, name: str) -> Any:
        call = None if value is None else self._call(value, name)
        return None if call is None else call.args[0]

    def _pairs(self, value: Any, name: str) -> Iterator[tuple[Any, Any]]:
        call = None if value is None else self._call(value, name)
        if call is not None:
            yield call.args[0], call.args[1]
            yield call.args[1], call.args[0]

    def _sums(self, value: Any) -> Iterator[tuple[Any, Any]]:
        return self._pairs(value, "add")

    def _products(self, value: Any) -> Iterator[tuple[Any, Any]]:
        return self._pairs(value, "multiply")

    def _sigmoid(self, value: Any) -> Any:
        """The operand of a sigmoid, or of 1 / (1 + exp(-x))."""
        if (call := self._call(value, "sigmoid")) is not None:
            return call.args[0]
        quotient = self._call(value, "divide")
        if quotient is None or not self._is_one(quotient.args[0]):
            return None
        for one, power in self._sums(quotient.args[1]):
            negative = self._operand(self._operand(power, "exp"), "negative")
            if self._is_one(one) and negative is not None:
                return negative
        return None

    def _is_rest(self, value: Any, gate: Any) -> bool:
        """Whether a value is 1 less a gate."""
        call = self._call(value, "subtract")
        return call is not None and self._is_one(call.args[0]) and self.is_same(call.args[1], gate)

    def _is_one(self, value: Any) -> bool:
        found = self._lookup(value)
        return isinstance(found, tvm.ir.GenericConst) and bool((found.value.numpy() == 1).all())

    def is_same(self, first: Any, second: Any) -> bool:
        """Whether two values are the same, but for axes of size 1."""
        left, right = self._lookup(first), self._lookup(second)
        return bool(left.same_as(right))


def _constant(array: np.ndarray) -> Any:
    return relax.const(np.ascontiguousarray(array.astype("float32")))
