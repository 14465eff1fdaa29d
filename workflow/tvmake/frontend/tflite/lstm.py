"""Unroll TFLite's LSTM over a sequence.

The states are variables of the file, which LiteRT keeps between calls until ``reset_all_variables``. In an integer layer the states are rounded and clipped at each step. Repair: `tflite-lstm`.
"""

from typing import Any

import tflite

from tvmake.frontend.tflite.variables import VariableConverter

from tvm import relax  # isort: skip

GATES = ("input", "forget", "cell", "output")
EPSILON = 1e-8
"""Epsilon of layer norms (``kLayerNormEpsilon``, tensorflow/lite/kernels/lstm_eval.cc)."""

FROM_INPUT, FROM_OUTPUT, FROM_CELL, BIAS, PROJECTION, STATES, NORM = 1, 5, 9, 12, 16, 18, 20
"""Indices of the first weights among the operands, in the order of ``GATES``; the cell gate has no peephole."""

UNPROJECTED = 4
"""Index of the intermediate tensor with the scale of the projection's input; those of the gates' norms precede it."""


class RecurrentConverter(VariableConverter):
    """TVM's converter with the LSTM over a sequence."""

    def convert_unidirectional_sequence_lstm(self, op: Any) -> Any:
        """Convert an LSTM with optional peepholes, projection and norms."""
        options = tflite.UnidirectionalSequenceLSTMOptions()
        options.Init(op.BuiltinOptions().Bytes, op.BuiltinOptions().Pos)
        data = self.get_tensor_expr(self.get_input_tensors(op)[0])
        if options.TimeMajor():
            data = self.bb.emit(relax.op.permute_dims(data, [1, 0, 2]))
        result = self.run_lstm(op, options, data)
        return relax.op.permute_dims(result, [1, 0, 2]) if options.TimeMajor() else result

    def run_lstm(self, op: Any, options: Any, data: Any) -> Any:
        """Run an LSTM on ``[batch, step, value]`` from its states, and keep them."""
        tensors = self.get_input_tensors(op)
        weights = [self._optional_operand(tensors, index) for index in range(len(tensors))]
        layer = _Lstm(self, weights, options, self._scaled_tensors(op, tensors))
        result, states = layer.run(data, weights[STATES : STATES + 2])
        for tensor, state in zip(tensors[STATES : STATES + 2], states, strict=True):
            self.keep(tensor, state)
        return result

    def fake_quantize(self, value: Any, tensor: Any | None) -> Any:
        """Round a value to the quantisation of a tensor, if it has one."""
        if tensor is None:
            return value
        return self.bb.emit(self.dequantize(self.bb.emit(self.quantize(value, tensor)), tensor))

    def _scaled_tensors(self, op: Any, tensors: list[Any]) -> list[Any]:
        """Tensors with the scales of the output, the cell, the norms' inputs and the projection's input; None for float32."""
        states = [self._quantised.get(tensor.tensor_idx) for tensor in tensors[STATES : STATES + 2]]
        intermediates = self.get_tensors([op.Intermediates(index) for index in range(op.IntermediatesLength())])
        scaled = [tensor if tensor.qnn_params else None for tensor in intermediates]
        return [*states, *[*scaled, *[None] * (UNPROJECTED + 1)][: UNPROJECTED + 1]]

    def _optional_operand(self, tensors: list[Any], index: int) -> Any:
        """An operand's expression; None if it is absent."""
        return self.get_tensor_expr(tensors[index]) if tensors[index].tensor_idx >= 0 else None


class _Lstm:
    """An LSTM layer."""

    def __init__(self, converter: RecurrentConverter, weights: list[Any], options: Any, scaled: list[Any]):
        self._converter = converter
        self._output, self._cell, *self._normed, self._unprojected = scaled
        self._activation = options.FusedActivationFunction()
        self._clips = options.CellClip(), options.ProjClip()
        self._weights = [*weights, *[None] * (NORM + len(GATES) - len(weights))]
        self._gates = [gate for gate in range(len(GATES)) if self._weights[FROM_INPUT + gate] is not None]
        self._has_norms = any(weight is not None for weight in self._weights[NORM:])

    def run(self, data: "relax.Expr", states: list["relax.Expr"]) -> tuple["relax.Expr", list["relax.Expr"]]:
        """Unroll a batch of sequences, ``[batch, step, value]``, from the output and cell before; returns both after it."""
        emit = self._converter.bb.emit
        _, steps, _ = (int(extent) for extent in data.ty.shape)
        input_weights = self._transpose_weights(FROM_INPUT)
        projected = relax.op.matmul(data, input_weights)
        if not self._has_norms:
            projected = relax.op.add(
                emit(projected), emit(relax.op.concat([self._weights[BIAS + gate] for gate in self._gates], 0))
            )
        parts = emit(relax.op.split(emit(projected), steps, axis=1)) if steps > 1 else [emit(projected)]
        recurrent = self._transpose_weights(FROM_OUTPUT)
        output, cell = states
        outputs = []
        for step in range(steps):
            sums = emit(relax.op.squeeze(parts[step], [1]))
            sums = emit(relax.op.add(sums, emit(relax.op.matmul(output, recurrent))))
            output, cell = self._step(
                dict(zip(self._gates, emit(relax.op.split(sums, len(self._gates), axis=1)), strict=True)), cell
            )
            outputs.append(output)
        return emit(relax.op.stack(outputs, axis=1)), [output, cell]

    def _transpose_weights(self, first: int) -> "relax.Expr":
        """The concatenated weights of all gates, ``[value, gates]``."""
        emit = self._converter.bb.emit
        joined = emit(relax.op.concat([self._weights[first + gate] for gate in self._gates], 0))
        return emit(relax.op.permute_dims(joined, [1, 0]))

    def _step(self, sums: dict[int, Any], cell: Any) -> tuple[Any, Any]:
        emit, op = self._converter.bb.emit, relax.op
        forget = emit(op.sigmoid(self._gate(1, sums, cell)))
        input_gate = (
            emit(op.sigmoid(self._gate(0, sums, cell))) if 0 in sums else emit(op.subtract(relax.const(1.0), forget))
        )
        new = emit(op.multiply(input_gate, self._activate(self._gate(2, sums, None))))
        cell = self._clip(emit(op.add(emit(op.multiply(forget, cell)), new)), self._clips[0])
        cell = self._converter.fake_quantize(cell, self._cell)
        output_gate = emit(op.sigmoid(self._gate(3, sums, cell)))
        output = emit(op.multiply(output_gate, self._activate(cell)))
        if (projection := self._weights[PROJECTION]) is not None:
            output = self._converter.fake_quantize(output, self._unprojected)
            output = emit(op.matmul(output, emit(op.permute_dims(projection, [1, 0]))))
            if (bias := self._weights[PROJECTION + 1]) is not None:
                output = emit(op.add(output, bias))
            output = self._clip(output, self._clips[1])
        return self._converter.fake_quantize(output, self._output), cell

    def _gate(self, gate: int, sums: dict[int, Any], cell: Any) -> Any:
        """The input of a gate's activation."""
        emit, op = self._converter.bb.emit, relax.op
        value = sums[gate]
        peephole = None if cell is None else self._weights[FROM_CELL + gate - (gate > 2)]
        if peephole is not None:
            value = emit(op.add(value, emit(op.multiply(cell, peephole))))
        if self._has_norms:
            value = self._converter.fake_quantize(value, self._normed[gate])
            value = emit(
                op.nn.layer_norm(
                    value, self._weights[NORM + gate], self._weights[BIAS + gate], axes=[-1], epsilon=EPSILON
                )
            )
        return value

    def _activate(self, value: Any) -> Any:
        converter = self._converter
        return converter.bb.emit(converter.convert_fused_activation_function(value, self._activation))

    def _clip(self, value: Any, bound: float) -> Any:
        return self._converter.bb.emit(relax.op.clip(value, -bound, bound)) if bound > 0 else value
