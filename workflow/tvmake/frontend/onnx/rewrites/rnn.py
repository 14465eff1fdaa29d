"""Unroll recurrent layers over their fixed sequence length: TVM's importer does not support them.

Equations and gate orders are those of ONNX's operator definitions (LSTM: i, o, f, c; GRU: z, r, h).
"""

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto

from tvmake.frontend.onnx.graph import Builder, attributes, optional_input

MAX_STEPS = 1024

Step = Callable[[str, list[str]], list[str]]
"""One time step: from the input's part of the gates [batch, gates·hidden] and the state to the new state, output first."""

Times = Callable[[str], str]
"""From a value [..., extent] to its matmul with weights [..., gates·hidden]."""


class Layer:
    """A recurrent layer: inputs, directions, sequence lengths and initial states."""

    def __init__(self, node: onnx.NodeProto, build: Builder, gates: int, states: int):
        self.node, self.build, self.gates = node, build, gates
        self.values = attributes(node)
        self.hidden = self.values["hidden_size"]
        self.direction = self.values.get("direction", "forward")
        self.directions = 2 if self.direction == "bidirectional" else 1
        self.time_major = not self.values.get("layout", 0)
        self.state_inputs = (5, 6)[:states]
        shape = build.graph.shape(node.input[0])
        length = shape[0 if self.time_major else 1] if shape else None
        self.batch = shape[1 if self.time_major else 0] if shape else None
        self.steps = length if isinstance(length, int) else 0
        """Length of the sequences; 0 if it is dynamic."""
        self.is_unrollable = 0 < self.steps <= MAX_STEPS

    def input(self, index: int) -> str:
        return optional_input(self.node, index)

    def part(self, name: str, direction: int) -> str:
        """One direction's slice of a weight, without the direction axis."""
        return self.build.squeeze(self.build.slice(name, 0, direction, direction + 1), [0])

    def times(self, index: int, direction: int) -> Times:
        """The matmul with the weights in an input of the node, for one direction."""
        weight = self.build.transpose(self.part(self.node.input[index], direction), [1, 0])
        return lambda value: self.build.op("MatMul", value, weight)

    def activation(self, direction: int, index: int, per_direction: int) -> Callable[[str], str]:
        defaults = {1: ["Tanh"], 2: ["Sigmoid", "Tanh"], 3: ["Sigmoid", "Tanh", "Tanh"]}[per_direction]
        names = self.values.get("activations") or [name.encode() for name in defaults * self.directions]
        position = direction * per_direction + index
        name = names[position].decode().lower()
        alphas, betas = list(self.values.get("activation_alpha", [])), list(self.values.get("activation_beta", []))
        operator, keys = ACTIVATIONS[name]
        # The lists have parameters only for activations that use them, in order.
        before = [ACTIVATIONS[n.decode().lower()][1] for n in names[:position]]
        attributes_: dict[str, float] = {}
        for key, listed in (("alpha", alphas), ("beta", betas)):
            number = sum(key in parameters for parameters in before)
            if key in keys and number < len(listed):
                attributes_[key] = listed[number]
        return lambda value: self.build.op(operator, value, **attributes_)

    def clip(self, value: str) -> str:
        bound = self.values.get("clip")
        if bound is None:
            return value
        x = self.node.input[0]
        return self.build.op("Clip", value, self.build.like(-bound, x), self.build.like(bound, x))

    def run(self, make_step: Callable[[int], tuple[str, Step]]) -> list[str]:
        """Unroll all directions; returns Y, Y_h and further final states in ONNX's layout."""
        build = self.build
        x = self.node.input[0] if self.time_major else build.transpose(self.node.input[0], [1, 0, 2])
        dtype, length = build.graph.numpy_dtype(self.node.input[0]), self.steps
        lengths = self.lengths(length)
        outputs, finals = [], []
        for direction in range(self.directions):
            bias, step = make_step(direction)
            steps = self.projections(x, direction, bias, length)
            state = [self.initial(index, direction, dtype) for index in self.state_inputs]
            backwards = self.direction == "reverse" or direction == 1
            rows = [""] * length
            zero = build.const(0, dtype)
            for time in reversed(range(length)) if backwards else range(length):
                new = step(steps[time], state)
                if lengths is None:
                    rows[time] = new[0]
                else:
                    # Steps after a sequence's end keep its state and give 0.
                    inside = build.op("Less", build.const(time, np.int64), lengths)
                    rows[time] = build.op("Where", inside, new[0], zero)
                    new = [build.op("Where", inside, now, before) for now, before in zip(new, state, strict=True)]
                state = new
            outputs.append(build.concat([build.unsqueeze(row, [0]) for row in rows], 0))
            finals.append(state)
        # Y: [length, directions, batch, hidden]
        y = build.concat([build.unsqueeze(output, [1]) for output in outputs], 1)
        last = [
            build.concat([build.unsqueeze(final[index], [0]) for final in finals], 0)
            for index in range(len(self.state_inputs))
        ]
        if not self.time_major:
            y = build.transpose(y, [2, 0, 1, 3])
            last = [build.transpose(value, [1, 0, 2]) for value in last]
        return [y, *last]

    def projections(self, x: str, direction: int, bias: str, length: int) -> list[str]:
        """The input's part of the gates per time step, from one matmul for all steps."""
        build = self.build
        projected = self.times(1, direction)(x)
        projected = build.op("Add", projected, bias) if bias else projected
        steps = build.ops("Split", length, projected, build.ints([1] * length), axis=0) if length > 1 else [projected]
        return [build.squeeze(step, [0]) for step in steps]

    def lengths(self, length: int) -> str | None:
        """The sequence lengths as [batch, 1] int64; None if every sequence has the full length."""
        name = self.input(4)
        if not name:
            return None
        known = self.build.graph.constant(name)
        if known is not None and (known == length).all():
            return None
        return self.build.reshape(self.build.cast(name, TensorProto.INT64), [-1, 1])

    def initial(self, index: int, direction: int, dtype: np.dtype) -> str:
        name = self.input(index)
        if not name:
            # The first step broadcasts one row of zeros over a dynamic batch.
            rows = self.batch if isinstance(self.batch, int) else 1
            return self.build.const(np.zeros((rows, self.hidden)), dtype)
        if not self.time_major:
            name = self.build.transpose(name, [1, 0, 2])
        return self.part(name, direction)

    def bias(self, direction: int) -> tuple[str, str]:
        """The input's and the recurrence's bias [gates·hidden], or two empty names."""
        if not self.input(3):
            return "", ""
        both, size = self.part(self.input(3), direction), self.gates * self.hidden
        return self.build.slice(both, 0, 0, size), self.build.slice(both, 0, size, 2 * size)

    def gates_of(self, value: str, count: int) -> list[str]:
        if count == 1:
            return [value]
        return self.build.ops("Split", count, value, self.build.ints([self.hidden] * count), axis=1)


ACTIVATIONS: dict[str, tuple[str, Sequence[str]]] = {
    "relu": ("Relu", ()),
    "tanh": ("Tanh", ()),
    "sigmoid": ("Sigmoid", ()),
    "softsign": ("Softsign", ()),
    "softplus": ("Softplus", ()),
    "leakyrelu": ("LeakyRelu", ("alpha",)),
    "thresholdedrelu": ("ThresholdedRelu", ("alpha",)),
    "hardsigmoid": ("HardSigmoid", ("alpha", "beta")),
    "elu": ("Elu", ("alpha",)),
}
"""The operator and its parameters for activations in lower case; without Affine and ScaledTanh."""


def _is_supported(layer: Layer) -> bool:
    names = layer.values.get("activations") or []
    return layer.is_unrollable and all(name.decode().lower() in ACTIVATIONS for name in names)


def rnn(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Unroll H = f(X·Wᵀ + Wb + H·Rᵀ + Rb)."""
    layer = Layer(node, build, gates=1, states=1)
    if not _is_supported(layer):
        return None

    def make_step(direction: int) -> tuple[str, Step]:
        recurrence = layer.times(2, direction)
        first, second = layer.bias(direction)
        bias = build.op("Add", first, second) if first else ""
        activate = layer.activation(direction, 0, 1)

        def step(projected: str, state: list[str]) -> list[str]:
            total = build.op("Add", projected, recurrence(state[0]))
            return [activate(layer.clip(total))]

        return bias, step

    return layer.run(make_step)


def gru(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Unroll a GRU with Z, R and H gates; linear_before_reset determines where the reset gate applies."""
    layer = Layer(node, build, gates=3, states=1)
    if not _is_supported(layer):
        return None
    linear_before_reset = layer.values.get("linear_before_reset", 0)
    hidden = layer.hidden

    def make_step(direction: int) -> tuple[str, Step]:
        recurrence = layer.part(node.input[2], direction)
        gates = build.transpose(build.slice(recurrence, 0, 0, 2 * hidden), [1, 0])
        candidate = build.transpose(build.slice(recurrence, 0, 2 * hidden, 3 * hidden), [1, 0])
        bias, recurrent = layer.bias(direction)
        gates_bias = build.slice(recurrent, 0, 0, 2 * hidden) if recurrent else ""
        candidate_bias = build.slice(recurrent, 0, 2 * hidden, 3 * hidden) if recurrent else ""
        f, g = layer.activation(direction, 0, 2), layer.activation(direction, 1, 2)

        def biased(value: str, name: str) -> str:
            return build.op("Add", value, name) if name else value

        def step(projected: str, state: list[str]) -> list[str]:
            x_z, x_r, x_h = layer.gates_of(projected, 3)
            h_z, h_r = layer.gates_of(biased(build.op("MatMul", state[0], gates), gates_bias), 2)
            z = f(layer.clip(build.op("Add", x_z, h_z)))
            r = f(layer.clip(build.op("Add", x_r, h_r)))
            if linear_before_reset:
                remembered = build.op("Mul", r, biased(build.op("MatMul", state[0], candidate), candidate_bias))
            else:
                remembered = biased(build.op("MatMul", build.op("Mul", r, state[0]), candidate), candidate_bias)
            h = g(layer.clip(build.op("Add", x_h, remembered)))
            keep = build.op("Mul", z, state[0])
            return [build.op("Add", build.op("Mul", build.op("Sub", one, z), h), keep)]

        one = build.like(1, node.input[0])
        return bias, step

    return layer.run(make_step)


def lstm(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Unroll an LSTM with I, O, F and C gates, optional peepholes, and optionally coupled input and forget gates."""
    layer = Layer(node, build, gates=4, states=2)
    if not _is_supported(layer) or build.graph.dtype(layer.input(1)) == TensorProto.INT8:
        return None
    hidden = layer.hidden

    def make_step(direction: int) -> tuple[str, Step]:
        recurrence = layer.times(2, direction)
        first, second = layer.bias(direction)
        bias = build.op("Add", first, second) if first else ""
        peepholes: list[str] = []
        if layer.input(7):
            whole = layer.part(layer.input(7), direction)
            peepholes = [build.slice(whole, 0, start * hidden, (start + 1) * hidden) for start in range(3)]
        f, g, h = (layer.activation(direction, index, 3) for index in range(3))

        def gate(value: str, cell: str, peephole: int) -> str:
            if peepholes:
                value = build.op("Add", value, build.op("Mul", peepholes[peephole], cell))
            return f(layer.clip(value))

        def step(projected: str, state: list[str]) -> list[str]:
            hidden_state, cell = state
            total = build.op("Add", projected, recurrence(hidden_state))
            to_i, to_o, to_f, to_c = layer.gates_of(total, 4)
            i = gate(to_i, cell, 0)
            if layer.values.get("input_forget", 0):
                forget = build.op("Sub", build.like(1, node.input[0]), i)
            else:
                forget = gate(to_f, cell, 2)
            candidate = g(layer.clip(to_c))
            cell = build.op("Add", build.op("Mul", forget, cell), build.op("Mul", i, candidate))
            o = gate(to_o, cell, 1)
            return [build.op("Mul", o, h(cell)), cell]

        return bias, step

    return layer.run(make_step)


RULES = {"RNN": rnn, "GRU": gru, "LSTM": lstm}
