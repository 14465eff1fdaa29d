"""Convert recurrent layers over a dynamic length. Shorter fixed lengths are unrolled before the import (``rewrites.rnn``)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import onnx

from tvmake.frontend.lowering.recurrent import IntegerWeights, Weights, emit_integer_recurrence, emit_recurrence
from tvmake.frontend.lowering.recurrent_kernel import Activation, Cell, Recurrence
from tvmake.frontend.onnx.dynamic.shape_values import ShapeValues
from tvmake.frontend.onnx.graph import Graph, attributes, fix_shapes

from tvm import relax  # isort: skip

Part = Callable[[Any], Any]
"""From a weight or state to the part of it that belongs to some directions; None for None."""

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
        return f"float64 needs a fixed length of the sequence: {fix_shapes(graph.graph)}"
    return None


def convert_recurrent(
    operator: str, values: ShapeValues, inputs: Sequence[Any], attributes: Mapping[str, Any]
) -> "relax.Tuple":
    """A layer's outputs and final states, with ONNX's shapes."""
    emit = values.builder.emit
    inputs = [*inputs, *[None] * (12 - len(inputs))]
    if str(inputs[1].ty.dtype.dtype) == "int8":
        return convert_integer_lstm(values, inputs, attributes)
    dtype, cell = str(inputs[0].ty.dtype.dtype), CELLS[operator]
    directions = _directions(attributes)
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

    layer = Recurrence(
        cell=cell,
        hidden=int(state_weights.ty.shape.values[2]),
        activations=(),
        clip=attributes.get("clip"),
        resets_matmul=bool(attributes.get("linear_before_reset", 0)),
        couples_forget=bool(attributes.get("input_forget", 0)),
        has_peepholes=peepholes is not None,
        lengths_dtype=None if inputs[4] is None else str(inputs[4].ty.dtype.dtype),
    )

    def emit_layer(layer: Recurrence, part: Part) -> list[Any]:
        weights = Weights(*map(part, (input_weights, state_weights, input_bias, state_bias, peepholes)))
        return emit_recurrence(values.builder, layer, data, weights, [*map(part, states)], inputs[4])

    results = _emit_directions(emit, attributes, layer, directions, emit_layer)
    if batch_major:
        results = [
            emit(relax.op.permute_dims(value, [1, 0, 2] if number else [2, 0, 1, 3]))
            for number, value in enumerate(results)
        ]
    return relax.Tuple([value if dtype == "float32" else emit(relax.op.astype(value, dtype)) for value in results])


def convert_integer_lstm(values: ShapeValues, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> "relax.Tuple":
    """An LSTM with 8-bit weights, in the form that the preparation writes for ONNX Runtime's ``DynamicQuantizeLSTM``.

    Its operands are those of that operator, but weights are signed, and scales and zero points belong to columns.
    """
    data, input_weights, state_weights, bias, lengths, *states, peepholes = inputs[:8]
    matrices = [(input_weights, *inputs[8:10]), (state_weights, *inputs[10:12])]
    biases = () if bias is None else _halves(values.builder.emit, bias)
    layer = Recurrence(
        cell="lstm",
        hidden=int(state_weights.ty.shape.values[1]),
        activations=(),
        clip=attributes.get("clip"),
        couples_forget=bool(attributes.get("input_forget", 0)),
        has_peepholes=peepholes is not None,
        lengths_dtype=None if lengths is None else str(lengths.ty.dtype.dtype),
    )

    def emit_layer(layer: Recurrence, part: Part) -> list[Any]:
        weights = [IntegerWeights(*map(part, matrix)) for matrix in matrices]
        others = [*map(part, biases)], part(peepholes), [*map(part, states)]
        return emit_integer_recurrence(values.builder, layer, data, weights, *others, lengths)

    directions = _directions(attributes)
    return relax.Tuple(_emit_directions(values.builder.emit, attributes, layer, directions, emit_layer))


def _emit_directions(
    emit: Any,
    attributes: Mapping[str, Any],
    layer: Recurrence,
    directions: tuple[Any, ...],
    emit_layer: Callable[[Recurrence, Part], list[Any]],
) -> list[Any]:
    """Emit a layer in one kernel, or in a kernel for each direction if their activations differ."""
    activations = read_activations(attributes, layer.cell, len(directions))
    if len({*activations}) == 1:
        whole = replace(layer, activations=activations[0], directions=directions)
        return emit_layer(whole, lambda value: value)
    parts = [
        emit_layer(
            replace(layer, activations=activations[index], directions=directions[index : index + 1]),
            partial(_direction, emit, index),
        )
        for index in range(len(directions))
    ]
    return [
        emit(relax.op.concat(pair, axis=0 if number else 1)) for number, pair in enumerate(zip(*parts, strict=True))
    ]


def _directions(attributes: Mapping[str, Any]) -> tuple[Any, ...]:
    direction = attributes.get("direction", b"forward").decode()
    return ("forward", "reverse") if direction == "bidirectional" else (direction,)


def _halves(emit: Any, bias: Any) -> tuple[Any, Any]:
    """The input's and the state's bias."""
    size = int(bias.ty.shape.values[1]) // 2
    first, second = (emit(relax.op.strided_slice(bias, [1], [start], [start + size])) for start in (0, size))
    return first, second


def _direction(emit: Any, index: int, value: Any) -> Any:
    """One direction's part of a weight or state."""
    return value if value is None else emit(relax.op.strided_slice(value, [0], [index], [index + 1]))
