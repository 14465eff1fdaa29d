"""Recurrent layers as one matmul for the inputs of all steps, and one kernel for the recurrence."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tvmake.frontend.lowering.recurrent_kernel import LANES, Recurrence, recurrence_kernel

from tvm import relax, tirx  # isort: skip


class Weights(NamedTuple):
    """The weights of a layer, float32, with D directions, G gates, H units and I inputs."""

    inputs: Any
    """[D, G·H, I]."""
    state: Any
    """[D, G·H, H]."""
    input_bias: Any = None
    """[D, G·H], or None."""
    state_bias: Any = None
    """[D, G·H], or None."""
    peepholes: Any = None
    """[D, 3·H] of the input, output and forget gate, or None."""


def emit_recurrence(
    builder: Any, layer: Recurrence, data: Any, weights: Weights, initial: Sequence[Any], lengths: Any = None
) -> list[Any]:
    """Emit a layer over sequences of any length.

    Args:
        builder: Relax's block builder.
        layer: the layer.
        data: float32, [T, B, I].
        weights: its weights.
        initial: the initial state, and the initial cell of an LSTM, each [D, B, H] or None for zeros.
        lengths: integers [B], or None.

    Returns:
        The outputs [T, D, B, H], the final state, and the final cell of an LSTM, each [D, B, H].
    """
    length, batch = (_extent(extent) for extent in data.ty.shape.values[:2])
    directions, gates, padded = len(layer.directions), layer.gates, layer.padded_units

    emit = builder.emit

    def pad_units(value: Any, *shape: int) -> Any:
        """Split the axis of gates and units into [D, count, H], and pad H."""
        value = emit(relax.op.reshape(value, (directions, shape[0], layer.hidden, *shape[1:])))
        padding = [0, 0] * 2 + [0, padded - layer.hidden] + [0, 0] * len(shape[1:])
        return emit(relax.op.nn.pad(value, padding)) if padded > layer.hidden else value

    inputs = _extent(data.ty.shape.values[2])
    matrix = emit(relax.op.reshape(pad_units(weights.inputs, gates, inputs), (directions * gates * padded, inputs)))
    projected = emit(relax.op.matmul(data, emit(relax.op.permute_dims(matrix))))
    bias, candidate = _biases(emit, layer, weights)
    if bias is not None:
        bias = pad_units(bias, gates)
        projected = emit(relax.op.add(projected, emit(relax.op.reshape(bias, (directions * gates * padded,)))))
    projected = emit(relax.op.reshape(projected, (length, batch, directions, gates, padded)))

    packed = pad_units(weights.state, gates, layer.hidden)
    packed = emit(relax.op.reshape(packed, (directions, gates, layer.blocks, LANES, layer.hidden)))
    arguments = [projected, emit(relax.op.permute_dims(packed, [0, 2, 4, 1, 3]))]
    if layer.has_candidate_bias:
        arguments.append(emit(relax.op.reshape(pad_units(candidate, 1), (directions, padded))))
    if layer.has_peepholes:
        arguments.append(pad_units(weights.peepholes, 3))
    state = (directions, batch, layer.hidden)
    zeros = relax.op.zeros(relax.ShapeExpr(state), "float32")
    arguments += [emit(zeros) if value is None else value for value in initial]
    if lengths is not None:
        arguments.append(lengths)

    kernel = recurrence_kernel(layer, _parameter(length, "length"), _parameter(batch, "batch"))
    results = [
        relax.TensorType((length, directions, batch, layer.hidden), "float32"),
        *[relax.TensorType(state, "float32")] * layer.states,
    ]
    call = emit(relax.call_tir(builder.add_func(kernel, "recurrence"), arguments, results))
    return [emit(relax.TupleGetItem(call, index)) for index in range(len(results))]


def _biases(emit: Any, layer: Recurrence, weights: Weights) -> tuple[Any, Any]:
    """The bias of the inputs [D, G·H], and that of a GRU's candidate [D, H], which its matmul with the state adds."""
    if not layer.has_candidate_bias:
        both = [bias for bias in (weights.input_bias, weights.state_bias) if bias is not None]
        return (emit(relax.op.add(*both)) if len(both) == 2 else both[0] if both else None), None
    directions, hidden = len(layer.directions), layer.hidden
    zeros = relax.const(np.zeros((directions, layer.gates * hidden), "float32"))
    first, second = (zeros if bias is None else bias for bias in (weights.input_bias, weights.state_bias))
    second = emit(relax.op.reshape(second, (directions, layer.gates, hidden)))
    gates = emit(relax.op.strided_slice(second, [1], [0], [2]))
    candidate = emit(relax.op.strided_slice(second, [1], [2], [3]))
    padding = emit(relax.op.nn.pad(gates, [0, 0, 0, 1, 0, 0]))
    gates = emit(relax.op.reshape(padding, (directions, layer.gates * hidden)))
    return emit(relax.op.add(first, gates)), candidate


def _extent(extent: Any) -> Any:
    return int(extent) if isinstance(extent, tirx.IntImm) else extent


def _parameter(extent: Any, name: str) -> Any:
    """The kernel's own variable for a dynamic extent of its caller."""
    return extent if isinstance(extent, int) else tirx.Var(name, "int64")
