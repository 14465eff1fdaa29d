"""TFLite's LSTM over a sequence, unrolled from states of zeros.

The states are variables of the file, which LiteRT keeps from call to call until ``reset_all_variables``; a package begins each call with
zeros, as Keras does. In a layer of integers the states are rounded, and bounded, at each step. Repair: `tflite-lstm`.
"""

from typing import Any

import numpy as np
import tflite

from tvmake.frontend.tflite.while_loops import LoopConverter

from tvm import relax  # isort: skip

GATES = ("input", "forget", "cell", "output")
EPSILON = 1e-8
"""Of norms in a layer (``kLayerNormEpsilon``, tensorflow/lite/kernels/lstm_eval.cc)."""

FROM_INPUT, FROM_OUTPUT, FROM_CELL, BIAS, PROJECTION, STATES, NORM = 1, 5, 9, 12, 16, 18, 20
"""Where the weights of gates begin among the operands, each in the order of ``GATES``; no peephole leads to the gate of the cell."""

UNPROJECTED = 4
"""The intermediate tensor that tells the scale of what is projected, after those of what the gates' norms take."""


class RecurrentConverter(LoopConverter):
    """TVM's converter, with the LSTM over a sequence."""

    def get_tensor_expr(self, tensor: Any, is_sparse: bool = False) -> Any:
        """A tensor's expression; a variable that nothing has been written to is zero."""
        if not tensor.tensor.IsVariable() or self.has_expr(tensor.tensor_idx):
            return super().get_tensor_expr(tensor, is_sparse)
        zero = int(tensor.qnn_params["zero_point"].value.numpy()) if tensor.qnn_params else 0
        dtype = self.get_tensor_type_str(tensor.tensor.Type())
        return relax.const(np.full(tensor.tensor.ShapeAsNumpy(), zero, dtype))

    def convert_unidirectional_sequence_lstm(self, op: Any) -> Any:
        """Of all gates, with peepholes, projection and norms where there are such."""
        options = tflite.UnidirectionalSequenceLSTMOptions()
        options.Init(op.BuiltinOptions().Bytes, op.BuiltinOptions().Pos)
        tensors = self.get_input_tensors(op)
        weights = [self._given(tensors, place) for place in range(len(tensors))]
        layer = _Lstm(self, weights, options, self._scaled(op, tensors))
        data = self.get_tensor_expr(tensors[0])
        if options.TimeMajor():
            data = self.bb.emit(relax.op.permute_dims(data, [1, 0, 2]))
        found = layer.run(data)
        return relax.op.permute_dims(found, [1, 0, 2]) if options.TimeMajor() else found

    def _scaled(self, op: Any, tensors: list[Any]) -> list[Any]:
        """The tensors whose scales output, cell, what norms take and what is projected have; None for those that stay real numbers."""
        states = [self._quantised.get(tensor.tensor_idx) for tensor in tensors[STATES : STATES + 2]]
        others = self.get_tensors([op.Intermediates(place) for place in range(op.IntermediatesLength())])
        between = [tensor if tensor.qnn_params else None for tensor in others]
        return [*states, *[*between, *[None] * (UNPROJECTED + 1)][: UNPROJECTED + 1]]

    def _given(self, tensors: list[Any], place: int) -> Any:
        """An operand's expression; None where it was left out."""
        return self.get_tensor_expr(tensors[place]) if tensors[place].tensor_idx >= 0 else None


class _Lstm:
    """A layer: its weights, and what follows from them."""

    def __init__(self, converter: RecurrentConverter, weights: list[Any], options: Any, scaled: list[Any]):
        self._converter = converter
        self._output, self._cell, *self._normed, self._unprojected = scaled
        self._activation = options.FusedActivationFunction()
        self._clips = options.CellClip(), options.ProjClip()
        self._weights = [*weights, *[None] * (NORM + len(GATES) - len(weights))]
        self._gates = [gate for gate in range(len(GATES)) if self._weights[FROM_INPUT + gate] is not None]
        self._has_norms = any(one is not None for one in self._weights[NORM:])

    def run(self, data: "relax.Expr") -> "relax.Expr":
        """All steps of a batch of sequences, ``[batch, step, value]``."""
        emit = self._converter.bb.emit
        batch, steps, _ = (int(extent) for extent in data.ty.shape)
        taken = self._turned(FROM_INPUT)
        given = relax.op.matmul(data, taken)
        if not self._has_norms:
            given = relax.op.add(
                emit(given), emit(relax.op.concat([self._weights[BIAS + gate] for gate in self._gates], 0))
            )
        parts = emit(relax.op.split(emit(given), steps, axis=1)) if steps > 1 else [emit(given)]
        recurrent = self._turned(FROM_OUTPUT)
        cell_width = int(self._weights[BIAS + 1].ty.shape[0])
        output, cell = (
            relax.const(np.zeros([batch, width], "float32")) for width in (int(recurrent.ty.shape[0]), cell_width)
        )
        outputs = []
        for step in range(steps):
            now = emit(relax.op.squeeze(parts[step], [1]))
            now = emit(relax.op.add(now, emit(relax.op.matmul(output, recurrent))))
            output, cell = self._step(
                dict(zip(self._gates, emit(relax.op.split(now, len(self._gates), axis=1)), strict=True)), cell
            )
            outputs.append(output)
        return relax.op.stack(outputs, axis=1)

    def _turned(self, first: int) -> "relax.Expr":
        """Weights of all gates beside each other, values in rows."""
        emit = self._converter.bb.emit
        beside = emit(relax.op.concat([self._weights[first + gate] for gate in self._gates], 0))
        return emit(relax.op.permute_dims(beside, [1, 0]))

    def _step(self, sums: dict[int, Any], cell: Any) -> tuple[Any, Any]:
        emit, op = self._converter.bb.emit, relax.op
        forget = emit(op.sigmoid(self._gate(1, sums, cell)))
        given = (
            emit(op.sigmoid(self._gate(0, sums, cell))) if 0 in sums else emit(op.subtract(relax.const(1.0), forget))
        )
        new = emit(op.multiply(given, self._activated(self._gate(2, sums, None))))
        cell = self._clipped(emit(op.add(emit(op.multiply(forget, cell)), new)), self._clips[0])
        cell = self._rounded(cell, self._cell)
        shown = emit(op.sigmoid(self._gate(3, sums, cell)))
        output = emit(op.multiply(shown, self._activated(cell)))
        if (projection := self._weights[PROJECTION]) is not None:
            output = self._rounded(output, self._unprojected)
            output = emit(op.matmul(output, emit(op.permute_dims(projection, [1, 0]))))
            if (bias := self._weights[PROJECTION + 1]) is not None:
                output = emit(op.add(output, bias))
            output = self._clipped(output, self._clips[1])
        return self._rounded(output, self._output), cell

    def _gate(self, gate: int, sums: dict[int, Any], cell: Any) -> Any:
        """What goes into a gate's activation."""
        emit, op = self._converter.bb.emit, relax.op
        value = sums[gate]
        peephole = None if cell is None else self._weights[FROM_CELL + gate - (gate > 2)]
        if peephole is not None:
            value = emit(op.add(value, emit(op.multiply(cell, peephole))))
        if self._has_norms:
            value = self._rounded(value, self._normed[gate])
            value = emit(
                op.nn.layer_norm(
                    value, self._weights[NORM + gate], self._weights[BIAS + gate], axes=[-1], epsilon=EPSILON
                )
            )
        return value

    def _activated(self, value: Any) -> Any:
        converter = self._converter
        return converter.bb.emit(converter.convert_fused_activation_function(value, self._activation))

    def _clipped(self, value: Any, bound: float) -> Any:
        return self._converter.bb.emit(relax.op.clip(value, -bound, bound)) if bound > 0 else value

    def _rounded(self, value: Any, tensor: Any | None) -> Any:
        """A value as the integers of a tensor hold it."""
        if tensor is None:
            return value
        converter = self._converter
        return converter.bb.emit(converter.dequantize(converter.bb.emit(converter.quantize(value, tensor)), tensor))
