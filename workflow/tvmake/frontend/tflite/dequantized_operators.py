"""Quantised operators as operators on real values, between ``dequantize`` and ``quantize``.

Every converter sees float32 tensors without scales, whatever its operator: which part of the network is computed in integers is
decided where all sources meet (``tvmake.quantize``). Repair: `tflite-quantized-operators`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import tflite

from tvm import relax  # isort: skip
from tvm.relax.frontend.tflite.tflite_frontend import OperatorConverter, TensorWrapper, get_tensor_name  # isort: skip

CONVERSIONS = frozenset({"QUANTIZE", "DEQUANTIZE"})
"""Operators that scales are the meaning of."""

INT4 = tflite.TensorType.INT4

BIASED = frozenset({"CONV_2D", "CONV_3D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"})
"""Operators whose bias may be integers of the product's scale without saying so."""


class _Real(tflite.Tensor):
    """A tensor of a file that says it is of float32."""

    def __init__(self, tensor: tflite.Tensor):
        super().__init__()
        self.Init(tensor._tab.Bytes, tensor._tab.Pos)

    def Type(self) -> int:
        return int(tflite.TensorType.FLOAT32)


class RealConverter(OperatorConverter):
    """TVM's converter, of real numbers."""

    convert_map: dict[str, Callable[..., Any]]
    """By names of operators."""

    def __init__(self, *arguments: Any, **values: Any):
        super().__init__(*arguments, **values)
        self._real: dict[int, Any] = {}
        """The wrappers of tensors that are shown as real numbers, by their place in the file."""
        self._quantised: dict[int, Any] = {}
        """What these are in the file."""
        for name, converter in self.convert_map.items():
            if name not in CONVERSIONS:
                self.convert_map[name] = partial(self._converted, name, converter)

    def check_unsupported_ops(self) -> None:
        """What no converter is there for has been refused; every one takes quantised tensors."""

    def get_tensors(self, tensors_idx_list: Any) -> list[Any]:
        """Tensors, those of the operator that is converted as real numbers."""
        return [self._real.get(tensor.tensor_idx, tensor) for tensor in super().get_tensors(tensors_idx_list)]

    def get_tensor_type_str(self, tensor_type: int) -> str:
        """Of a tensor's type; integers of 4 bits are imported as ones of 8."""
        return "int8" if tensor_type == INT4 else str(super().get_tensor_type_str(tensor_type))

    def get_tensor_value(self, tensor_wrapper: Any, is_sparse: bool = False) -> Any:
        """A constant; two integers of 4 bits share a byte, the first in its lower half."""
        if isinstance(tensor_wrapper.tensor, _Real):
            return self._real_value(self._quantised[tensor_wrapper.tensor_idx])
        if tensor_wrapper.tensor.Type() != INT4:
            return super().get_tensor_value(tensor_wrapper, is_sparse)
        shape = tensor_wrapper.tensor.ShapeAsNumpy()
        held = np.asarray(tensor_wrapper.buffer.DataAsNumpy(), np.uint8).view(np.int8)
        halves = np.stack([held << 4 >> 4, held >> 4], axis=-1)
        return halves.reshape(-1)[: int(np.prod(shape))].reshape(shape)

    def _real_value(self, tensor: Any) -> np.ndarray:
        integers = np.asarray(self.get_tensor_value(tensor))
        parameters, shape = tensor.qnn_params, [1] * integers.ndim
        if parameters["scale"].value.numpy().size > 1:
            shape[int(parameters["axis"])] = -1
        scale, zero_point = (parameters[key].value.numpy().reshape(shape) for key in ("scale", "zero_point"))
        return np.float32(integers.astype(np.float64) - zero_point) * scale

    def dequantize(self, expr: Any, tensor: Any) -> Any:
        """Integers as real numbers."""
        parameters = tensor.qnn_params
        if str(self.bb.normalize(expr).ty.dtype) == "int64":  # of biases; TVM's operator takes no such
            real = relax.op.astype(expr, "float32")
            return relax.op.multiply(real, parameters["scale"])
        return super().dequantize(expr, tensor)

    def convert_dequantize(self, op: Any) -> Any:
        """Of constants, too, as tools write weights whose input stays in floating point."""
        (data,) = self.get_input_tensors(op)
        return self._number(data) if data.qnn_params else super().convert_dequantize(op)

    def _converted(self, name: str, convert: Callable[..., Any], op: Any) -> Any:
        inputs, outputs = self.get_input_tensors(op), self.get_output_tensors(op)
        quantised = [tensor for tensor in (*inputs, *outputs) if tensor.tensor_idx >= 0 and tensor.qnn_params]
        if not quantised:
            return convert(op=op)
        real = {tensor.tensor_idx: self.bb.normalize(self._number(tensor)) for tensor in inputs if tensor in quantised}
        if name in BIASED and (bias := self._unscaled_bias(inputs)) is not None:
            quantised.append(bias)
            real[bias.tensor_idx] = self.bb.normalize(self._number(bias))
        with self._shown(quantised, real):
            found = convert(op=op)
        if found is None:
            return None
        found = self.bb.normalize(found)
        if len(outputs) == 1:
            return self._rounded(found, outputs[0])
        return relax.Tuple([self._rounded(found[place], tensor) for place, tensor in enumerate(outputs)])

    def _number(self, tensor: Any) -> Any:
        """A tensor as floating-point numbers."""
        value = self.get_tensor_expr(tensor)
        return self.dequantize(value, tensor) if tensor.qnn_params else value

    def _rounded(self, value: Any, tensor: Any) -> Any:
        return self.quantize(value, tensor) if tensor.qnn_params else value

    def _unscaled_bias(self, inputs: list[Any]) -> Any | None:
        """A bias of integers that has no scale of its own, with the product's."""
        *products, bias = inputs
        if len(inputs) < 3 or bias.tensor_idx < 0 or bias.qnn_params:
            return None
        if bias.tensor.Type() not in (tflite.TensorType.INT32, tflite.TensorType.INT64):
            return None
        scales = [tensor.qnn_params["scale"].value.numpy() for tensor in products if tensor.qnn_params]
        if len(scales) < 2:
            return None
        parameters = {"scale": relax.const(scales[0] * scales[1]), "zero_point": relax.const(0, "int32"), "axis": 0}
        return TensorWrapper(bias.tensor_idx, bias.tensor, bias.buffer, parameters)

    @contextmanager
    def _shown(self, quantised: list[Any], real: dict[int, Any]) -> Iterator[None]:
        """Show tensors as real numbers; of those that an operator reads, these."""
        names = {place: get_tensor_name(self.subgraph, place) for place in real}
        before = {name: self.exp_tab.exprs.get(name) for name in names.values()}
        self.exp_tab.exprs.update({names[place]: value for place, value in real.items()})
        self._real = {
            tensor.tensor_idx: TensorWrapper(tensor.tensor_idx, _Real(tensor.tensor), tensor.buffer)
            for tensor in quantised
        }
        self._quantised = {tensor.tensor_idx: tensor for tensor in quantised}
        try:
            yield
        finally:
            self._real, self._quantised = {}, {}
            for name, value in before.items():
                if value is None:
                    del self.exp_tab.exprs[name]
                else:
                    self.exp_tab.exprs[name] = value
