"""Convert recurrent layers over a dynamic length. Shorter fixed lengths are unrolled before the import (``rewrites.rnn``)."""

from collections.abc import Mapping, Sequence
from typing import Any

import onnx

from tvmake.frontend.lowering.recurrent import Weights, emit_recurrence
from tvmake.frontend.lowering.recurrent_kernel import Activation, Cell, Recurrence
from tvmake.frontend.onnx.dynamic.shape_values import ShapeValues
from tvmake.frontend.onnx.graph import Graph, attributes

from tvm import relax  # isort: skip

CELLS: dict[str, Cell] = {"LSTM": "lstm", "GRU": "gru", "RNN": "rnn"}

DEFAULT_ACTIVATIONS: dict[Cell, tuple[str, ...]] = {
    "lstm": ("sigmoid", "tanh", "tanh"),
    "gru": ("sigmoid", "tanh"),
    "rnn": ("tanh",),
}

PARAMETERS: dict[str, dict[str, float]] = {
    "elu": {"alpha": 1.0},
    "hardsigmoid": {"alpha": 0.2, "beta": 0.5},
    "leakyrelu": {"alpha": 0.01},
    "relu": {},
    "sigmoid": {},
    "softplus": {},
    "softsign": {},
    "tanh": {},
    "thresholdedrelu": {"alpha": 1.0},
}
"""The parameters of each supported activation, with the defaults of ONNX's operator of that name."""


def read_activations(values: Mapping[str, Any], cell: Cell, directions: int) -> list[tuple[Activation, ...]]:
    """The activations of each direction.

    Args:
        values: the node's attributes.
        cell: the kind of layer.
        directions: their number.

    Raises:
        KeyError: an activation is not supported.
    """
    names = [name.decode().lower() for name in values.get("activations") or ()]
    names = names or [*DEFAULT_ACTIVATIONS[cell]] * directions
    # The lists have parameters only for activations that use them, in order.
    lists = {"alpha": [*values.get("activation_alpha", ())], "beta": [*values.get("activation_beta", ())]}
    activations = [
        Activation(
            name, **{key: lists[key].pop(0) if lists[key] else default for key, default in PARAMETERS[name].items()}
        )
        for name in names
    ]
    count = len(DEFAULT_ACTIVATIONS[cell])
    return [tuple(activations[index * count : (index + 1) * count]) for index in range(directions)]


def refusal(node: onnx.NodeProto, graph: Graph) -> str | None:
    """Why a recurrent layer cannot be converted; None if it can."""
    names = [name.decode() for name in attributes(node).get("activations") or ()]
    unknown = [name for name in names if name.lower() not in PARAMETERS]
    if unknown:
        return f"the activation {unknown[0]} is not supported"
    if graph.dtype(node.input[0]) == onnx.TensorProto.DOUBLE:
        return "float64 needs a fixed length of the sequence"
    return None


def convert_recurrent(
    operator: str, values: ShapeValues, inputs: Sequence[Any], attributes: Mapping[str, Any]
) -> "relax.Tuple":
    """A layer's outputs and final states, with ONNX's shapes."""
    emit = values.builder.emit
    inputs = [*inputs, *[None] * (8 - len(inputs))]
    dtype, cell = str(inputs[0].ty.dtype.dtype), CELLS[operator]
    direction = attributes.get("direction", b"forward").decode()
    directions = ("forward", "reverse") if direction == "bidirectional" else (direction,)
    batch_major = bool(attributes.get("layout", 0))

    def single(value: Any) -> Any:
        return value if value is None or dtype == "float32" else emit(relax.op.astype(value, "float32"))

    data, input_weights, state_weights = map(single, inputs[:3])
    states = [single(value) for value in inputs[5 : 7 if cell == "lstm" else 6]]
    if batch_major:
        data = emit(relax.op.permute_dims(data, [1, 0, 2]))
        states = [value if value is None else emit(relax.op.permute_dims(value, [1, 0, 2])) for value in states]
    input_bias, state_bias = (None, None) if inputs[3] is None else _halves(emit, single(inputs[3]))
    peepholes = single(inputs[7])
    activations = read_activations(attributes, cell, len(directions))

    def layer(activations: tuple[Activation, ...], directions: tuple[str, ...]) -> Recurrence:
        return Recurrence(
            cell=cell,
            hidden=int(state_weights.ty.shape.values[2]),
            activations=activations,
            directions=directions,  # type: ignore[arg-type]
            clip=attributes.get("clip"),
            resets_matmul=bool(attributes.get("linear_before_reset", 0)),
            couples_forget=bool(attributes.get("input_forget", 0)),
            has_peepholes=peepholes is not None,
            lengths_dtype=None if inputs[4] is None else str(inputs[4].ty.dtype.dtype),
        )

    operands = Weights(input_weights, state_weights, input_bias, state_bias, peepholes)
    if len({*activations}) == 1:
        results = emit_recurrence(values.builder, layer(activations[0], directions), data, operands, states, inputs[4])
    else:
        parts = [
            emit_recurrence(
                values.builder,
                layer(activations[index], directions[index : index + 1]),
                data,
                Weights(*(_direction(emit, value, index) for value in operands)),
                [_direction(emit, value, index) for value in states],
                inputs[4],
            )
            for index in range(2)
        ]
        results = [
            emit(relax.op.concat(pair, axis=0 if number else 1)) for number, pair in enumerate(zip(*parts, strict=True))
        ]
    if batch_major:
        results = [
            emit(relax.op.permute_dims(value, [1, 0, 2] if number else [2, 0, 1, 3]))
            for number, value in enumerate(results)
        ]
    return relax.Tuple([value if dtype == "float32" else emit(relax.op.astype(value, dtype)) for value in results])


def _halves(emit: Any, bias: Any) -> tuple[Any, Any]:
    """The input's and the state's bias."""
    size = int(bias.ty.shape.values[1]) // 2
    first, second = (emit(relax.op.strided_slice(bias, [1], [start], [start + size])) for start in (0, size))
    return first, second


def _direction(emit: Any, value: Any, index: int) -> Any:
    """One direction's part of a weight or state."""
    return value if value is None else emit(relax.op.strided_slice(value, [0], [index], [index + 1]))
