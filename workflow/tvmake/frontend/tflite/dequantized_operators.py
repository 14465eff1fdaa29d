"""Convert quantised operators to float32 operators between ``dequantize`` and ``quantize``.

All converters see float32 tensors without scales. ``tvmake.quantize`` determines which part of the network is computed in integers.
Repair: `tflite-quantized-operators`.
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
"""Operators that convert between integers and floating-point values themselves."""

INT4 = tflite.TensorType.INT4

BIASED = frozenset({"CONV_2D", "CONV_3D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"})
"""Operators whose integer bias may lack a scale; it then has the scale of the matmul."""


class _FloatTensor(tflite.Tensor):
    """A tensor of the file that reports the type float32."""

    def __init__(self, tensor: tflite.Tensor):
        super().__init__()
        self.Init(tensor._tab.Bytes, tensor._tab.Pos)

    def Type(self) -> int:
        return int(tflite.TensorType.FLOAT32)


class RealConverter(OperatorConverter):
    """TVM's converter on dequantised tensors."""

    convert_map: dict[str, Callable[..., Any]]
    """Converters by the operator's name."""

    def __init__(self, *arguments: Any, **values: Any):
        super().__init__(*arguments, **values)
        self._real: dict[int, Any] = {}
        """Float32 wrappers of the current operator's quantised tensors, by the index in the file."""
        self._quantised: dict[int, Any] = {}
        """The file's own wrappers of these tensors."""
        for name, converter in self.convert_map.items():
            if name not in CONVERSIONS:
                self.convert_map[name] = partial(self._convert_on_floats, name, converter)

    def check_unsupported_ops(self) -> None:
        """Do nothing: unsupported operators have been refused, and every converter supports quantised tensors."""

    def get_tensors(self, tensors_idx_list: Any) -> list[Any]:
        """Tensors; quantised ones of the current operator as float32."""
        return [self._real.get(tensor.tensor_idx, tensor) for tensor in super().get_tensors(tensors_idx_list)]

    def get_tensor_type_str(self, tensor_type: int) -> str:
        """TVM's dtype of a tensor's type; 4-bit integers are imported as int8."""
        return "int8" if tensor_type == INT4 else str(super().get_tensor_type_str(tensor_type))

    def get_tensor_value(self, tensor_wrapper: Any, is_sparse: bool = False) -> Any:
        """The value of a constant; two 4-bit integers share a byte, the first in its lower half."""
        if isinstance(tensor_wrapper.tensor, _FloatTensor):
            return self._real_value(self._quantised[tensor_wrapper.tensor_idx])
        if tensor_wrapper.tensor.Type() != INT4:
            return super().get_tensor_value(tensor_wrapper, is_sparse)
        shape = tensor_wrapper.tensor.ShapeAsNumpy()
        packed = np.asarray(tensor_wrapper.buffer.DataAsNumpy(), np.uint8).view(np.int8)
        halves = np.stack([packed << 4 >> 4, packed >> 4], axis=-1)
        return halves.reshape(-1)[: int(np.prod(shape))].reshape(shape)

    def _real_value(self, tensor: Any) -> np.ndarray:
        integers = np.asarray(self.get_tensor_value(tensor))
        parameters, shape = tensor.qnn_params, [1] * integers.ndim
        if parameters["scale"].value.numpy().size > 1:
            shape[int(parameters["axis"])] = -1
        scale, zero_point = (parameters[key].value.numpy().reshape(shape) for key in ("scale", "zero_point"))
        return np.float32(integers.astype(np.float64) - zero_point) * scale

    def dequantize(self, expr: Any, tensor: Any) -> Any:
        """Dequantise integers."""
        parameters = tensor.qnn_params
        if str(self.bb.normalize(expr).ty.dtype) == "int64":  # biases; TVM's operator does not support int64
            real = relax.op.astype(expr, "float32")
            return relax.op.multiply(real, parameters["scale"])
        return super().dequantize(expr, tensor)

    def convert_dequantize(self, op: Any) -> Any:
        """Convert a dequantisation, also of constants: tools write weights of floating-point operators this way."""
        (data,) = self.get_input_tensors(op)
        if data.qnn_params:
            return self._float_value(data)
        if self.is_prefetched(data.tensor_idx):  # sparse weights in float16
            return relax.op.astype(self.get_tensor_expr(data), "float32")
        return super().convert_dequantize(op)

    def _convert_on_floats(self, name: str, convert: Callable[..., Any], op: Any) -> Any:
        inputs, outputs = self.get_input_tensors(op), self.get_output_tensors(op)
        quantised = [tensor for tensor in (*inputs, *outputs) if tensor.tensor_idx >= 0 and tensor.qnn_params]
        if not quantised:
            return convert(op=op)
        real = {
            tensor.tensor_idx: self.bb.normalize(self._float_value(tensor)) for tensor in inputs if tensor in quantised
        }
        if name in BIASED and (bias := self._unscaled_bias(inputs)) is not None:
            quantised.append(bias)
            real[bias.tensor_idx] = self.bb.normalize(self._float_value(bias))
        with self._replace_by_floats(quantised, real):
            result = convert(op=op)
        if result is None:
            return None
        result = self.bb.normalize(result)
        if len(outputs) == 1:
            return self._quantize_result(result, outputs[0])
        return relax.Tuple([self._quantize_result(result[index], tensor) for index, tensor in enumerate(outputs)])

    def _float_value(self, tensor: Any) -> Any:
        """A tensor's value, dequantised if it is quantised."""
        value = self.get_tensor_expr(tensor)
        return self.dequantize(value, tensor) if tensor.qnn_params else value

    def _quantize_result(self, value: Any, tensor: Any) -> Any:
        return self.quantize(value, tensor) if tensor.qnn_params else value

    def _unscaled_bias(self, inputs: list[Any]) -> Any | None:
        """An integer bias without a scale, with the scale of the matmul; None for any other."""
        *operands, bias = inputs
        if len(inputs) < 3 or bias.tensor_idx < 0 or bias.qnn_params:
            return None
        if bias.tensor.Type() not in (tflite.TensorType.INT32, tflite.TensorType.INT64):
            return None
        scales = [tensor.qnn_params["scale"].value.numpy() for tensor in operands if tensor.qnn_params]
        if len(scales) < 2:
            return None
        parameters = {"scale": relax.const(scales[0] * scales[1]), "zero_point": relax.const(0, "int32"), "axis": 0}
        return TensorWrapper(bias.tensor_idx, bias.tensor, bias.buffer, parameters)

    @contextmanager
    def _replace_by_floats(self, quantised: list[Any], real: dict[int, Any]) -> Iterator[None]:
        """Replace quantised tensors by float32 ones for one operator.

        Args:
            quantised: the operator's quantised tensors.
            real: dequantised values of those that it reads, by the index in the file.
        """
        names = {index: get_tensor_name(self.subgraph, index) for index in real}
        before = {name: self.exp_tab.exprs.get(name) for name in names.values()}
        self.exp_tab.exprs.update({names[index]: value for index, value in real.items()})
        self._real = {
            tensor.tensor_idx: TensorWrapper(tensor.tensor_idx, _FloatTensor(tensor.tensor), tensor.buffer)
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
