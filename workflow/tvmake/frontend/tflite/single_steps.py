"""TFLite's recurrent operators that compute one step from a variable: SVDF, RNN and LSTM; and RNN over a sequence."""

from functools import partial
from typing import Any

import tflite

from tvmake.frontend.tflite.lstm import RecurrentConverter

from tvm import relax  # isort: skip


class SingleStepConverter(RecurrentConverter):
    """TVM's converter with steps of recurrent layers."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.convert_map["RNN"] = partial(self._convert_on_floats, "RNN", self.convert_rnn)

    def convert_svdf(self, op: Any) -> Any:
        """Filter the features of the last inputs, of which the state has those of ``memory`` calls, ``[batch, filter · memory]``."""
        options = tflite.SVDFOptions()
        options.Init(op.BuiltinOptions().Bytes, op.BuiltinOptions().Pos)
        emit, ops = self.bb.emit, relax.op
        tensors = self.get_input_tensors(op)
        data, features, times = (self.get_tensor_expr(tensor) for tensor in tensors[:3])
        filters, memory = (int(extent) for extent in self.get_tensor_shape(tensors[2]))
        batch = int(self.bb.normalize(data).ty.shape[0])
        past = emit(ops.reshape(self.get_tensor_expr(tensors[4]), (batch, filters, memory)))
        new = emit(ops.matmul(data, emit(ops.permute_dims(features, [1, 0]))))
        new = self.fake_quantize(new, self._quantised.get(tensors[4].tensor_idx))
        kept = emit(ops.strided_slice(past, [2], [1], [memory]))
        state = emit(ops.concat([kept, emit(ops.reshape(new, (batch, filters, 1)))], 2))
        self.keep(tensors[4], emit(ops.reshape(state, (batch, filters * memory))))
        sums = emit(ops.sum(emit(ops.multiply(state, times)), [2]))
        rank = options.Rank()
        result = emit(ops.sum(emit(ops.reshape(sums, (batch, filters // rank, rank))), [2]))
        if tensors[3].tensor_idx >= 0:
            result = emit(ops.add(result, self.get_tensor_expr(tensors[3])))
        return self.convert_fused_activation_function(result, options.FusedActivationFunction())

    def convert_rnn(self, op: Any) -> Any:
        """Compute one step of a simple recurrent layer."""
        options = tflite.RNNOptions()
        options.Init(op.BuiltinOptions().Bytes, op.BuiltinOptions().Pos)
        data, *_ = tensors = self.get_input_tensors(op)
        (result,) = self._run_rnn(tensors, [self.get_tensor_expr(data)], options.FusedActivationFunction())
        return result

    def convert_unidirectional_sequence_rnn(self, op: Any) -> Any:
        """Compute a simple recurrent layer over a sequence."""
        options = tflite.SequenceRNNOptions()
        options.Init(op.BuiltinOptions().Bytes, op.BuiltinOptions().Pos)
        tensors, axis = self.get_input_tensors(op), 0 if options.TimeMajor() else 1
        data = self.get_tensor_expr(tensors[0])
        steps = [
            self.bb.emit(relax.op.take(data, relax.const(step, "int64"), axis))
            for step in range(int(self.bb.normalize(data).ty.shape[axis]))
        ]
        return relax.op.stack(self._run_rnn(tensors, steps, options.FusedActivationFunction()), axis)

    def _run_rnn(self, tensors: list[Any], steps: list[Any], activation: int) -> list[Any]:
        emit, ops = self.bb.emit, relax.op
        of_input, of_state = (emit(ops.permute_dims(self.get_tensor_expr(tensor), [1, 0])) for tensor in tensors[1:3])
        bias, state = (self.get_tensor_expr(tensor) for tensor in tensors[3:5])
        states = []
        for step in steps:
            sums = emit(ops.add(emit(ops.matmul(step, of_input)), emit(ops.matmul(state, of_state))))
            sums = emit(ops.add(sums, bias))
            state = emit(self.convert_fused_activation_function(sums, activation))
            states.append(state)
        self.keep(tensors[4], state)
        return states

    def convert_lstm(self, op: Any) -> Any:
        """Compute one step of an LSTM."""
        options = tflite.LSTMOptions()
        options.Init(op.BuiltinOptions().Bytes, op.BuiltinOptions().Pos)
        if options.KernelType() != tflite.LSTMKernelType.FULL:
            raise ValueError("an LSTM of the kernel type BASIC")
        data = relax.op.expand_dims(self.get_tensor_expr(self.get_input_tensors(op)[0]), 1)
        return relax.op.squeeze(self.run_lstm(op, options, self.bb.emit(data)), [1])
