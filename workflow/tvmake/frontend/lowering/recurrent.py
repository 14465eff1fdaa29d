"""Recurrent layers as one matmul for the inputs of all steps, and one kernel for the recurrence."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tvmake.frontend.lowering.recurrent_integer_kernel import (
    integer_projection_kernel,
    integer_recurrence_kernel,
    projected_shape,
)
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


class IntegerWeights(NamedTuple):
    """Weights of a layer in 8 bits, with D directions, G gates, H units and K inputs or units: ``(values - zeros) · scales``."""

    values: Any
    """int8, [D, K, G·H]."""
    scales: Any
    """float32, [D, G·H]."""
    zeros: Any = None
    """int32, [D, G·H], or None."""


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
    pad_units = partial(_pad_units, emit, layer)
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
    sizes = length, batch
    return _call_kernel(builder, layer, recurrence_kernel, arguments, sizes, weights.peepholes, initial, lengths)


def emit_integer_recurrence(
    builder: Any,
    layer: Recurrence,
    data: Any,
    weights: Sequence[IntegerWeights],
    biases: Sequence[Any],
    peepholes: Any,
    initial: Sequence[Any],
    lengths: Any = None,
) -> list[Any]:
    """Emit an LSTM that rounds its input and, in every step, its state to 8 bits.

    Args:
        builder: Relax's block builder.
        layer: the layer.
        data: float32, [T, B, I].
        weights: the weights of the input and of the state.
        biases: float32, [D, G·H], to be added to the gates.
        peepholes: as in :class:`Weights`.
        initial: as for :func:`emit_recurrence`.
        lengths: integers [B], or None.

    Returns:
        The same as :func:`emit_recurrence`.
    """
    length, batch = (_extent(extent) for extent in data.ty.shape.values[:2])
    emit, of_input, of_state = builder.emit, *(_pack_integers(builder.emit, layer, value) for value in weights)
    shape = (len(layer.directions), layer.gates, layer.padded_units)
    bias = relax.const(np.zeros(shape, "float32"))
    for value in biases:
        bias = emit(relax.op.add(bias, _pad_units(emit, layer, value, layer.gates)))
    arguments = [data, *of_input, bias, *([] if lengths is None else [lengths])]
    sizes = _parameter(length, "length"), _parameter(batch, "batch")
    has_zeros = [value.zeros is not None for value in weights]
    kernel = integer_projection_kernel(
        replace(layer, has_weight_zeros=has_zeros[0]), *sizes, _extent(data.ty.shape.values[2])
    )
    result = relax.TensorType(projected_shape(layer, length, batch), "float32")
    projected = emit(relax.call_tir(builder.add_func(kernel, "projection"), arguments, result))
    layer = replace(layer, has_weight_zeros=has_zeros[1])
    return _call_kernel(
        builder, layer, integer_recurrence_kernel, [projected, *of_state], (length, batch), peepholes, initial, lengths
    )


def _pack_integers(emit: Any, layer: Recurrence, weights: IntegerWeights) -> list[Any]:
    """Weights as kernels without an instruction take them, with their scales, sums and zero points."""
    op, gates = relax.op, layer.gates
    extent = int(weights.values.ty.shape.values[1])
    matrix = _pad_units(emit, layer, emit(op.permute_dims(weights.values, [0, 2, 1])), gates, extent)
    packed = emit(op.reshape(matrix, (len(layer.directions), gates, layer.blocks, LANES, extent)))
    packed = emit(op.permute_dims(packed, [0, 2, 4, 1, 3]))
    totals = emit(op.sum(emit(op.astype(weights.values, "int32")), [1]))
    zeros = []
    if weights.zeros is not None:
        totals = emit(op.subtract(totals, emit(op.multiply(weights.zeros, relax.const(extent, "int32")))))
        zeros = [weights.zeros]
    return [packed, *(_pad_units(emit, layer, value, gates) for value in (weights.scales, totals, *zeros))]


def _pad_units(emit: Any, layer: Recurrence, value: Any, *shape: int) -> Any:
    """Split the axis of gates and units into [D, count, H], and pad H."""
    value = emit(relax.op.reshape(value, (len(layer.directions), shape[0], layer.hidden, *shape[1:])))
    padding = [0, 0] * 2 + [0, layer.padded_units - layer.hidden] + [0, 0] * len(shape[1:])
    return emit(relax.op.nn.pad(value, padding)) if layer.padded_units > layer.hidden else value


def _call_kernel(
    builder: Any,
    layer: Recurrence,
    write_kernel: Callable[[Recurrence, Any, Any], Any],
    arguments: list[Any],
    sizes: tuple[Any, Any],
    peepholes: Any,
    initial: Sequence[Any],
    lengths: Any,
) -> list[Any]:
    """Call the kernel of a layer; ``arguments`` are those before the peepholes, ``sizes`` the length and the batch."""
    emit, directions, (length, batch) = builder.emit, len(layer.directions), sizes
    if layer.has_peepholes:
        arguments.append(_pad_units(emit, layer, peepholes, 3))
    state = (directions, batch, layer.hidden)
    layer = replace(layer, has_initial_state=any(value is not None for value in initial))
    if layer.has_initial_state:
        zeros = relax.op.zeros(relax.ShapeExpr(state), "float32")
        arguments += [emit(zeros) if value is None else value for value in initial]
    if lengths is not None:
        arguments.append(lengths)

    kernel = write_kernel(layer, _parameter(length, "length"), _parameter(batch, "batch"))
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
