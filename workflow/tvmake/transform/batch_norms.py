"""Fold batch norms into the weights before them, or into one multiplication and one addition.

TVM's ``FoldBatchnormToConv2D`` supports only conv2d without a bias. For others, and for batch norms before activations as
in DenseNet and ResNet v2, ``DecomposeOpsForInference`` emits a difference, a division, a multiplication and a sum.
"""

from collections import Counter
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from tvmake.artifact.weights.tensors import spill_tensor
from tvmake.ir.expressions import constant, fixed_shape, is_call
from tvmake.ir.rewriting import definition, rewritten

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d")
TRANSPOSED = ("nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose")


def fold_batch_norms(module: "tvm.IRModule") -> "tvm.IRModule":
    """Fold batch norms with constant parameters."""
    return relax.transform.DeadCodeElimination()(rewritten(module, _BatchNormFolder(module)))


@mutator
class _BatchNormFolder(PyExprMutator):
    def __init__(self, module: "tvm.IRModule"):
        super().__init__(module)
        self.uses: Counter[Any] = Counter()
        """Number of uses of each variable."""

    def visit_function_(self, op: Any) -> Any:
        def note(used: Any) -> None:
            self.uses.update(used.args if isinstance(used, tvm.ir.Call) else used.fields)

        tvm_ffi.structural_walk(op.body, [(tvm.ir.Call, note), (relax.Tuple, note)])
        outputs = [block.bindings for block in op.body.blocks]
        self.uses.update(
            binding.value for bindings in outputs for binding in bindings if isinstance(binding.value, relax.Var)
        )
        self.uses.update([op.body.body])
        return super().visit_function_(op)

    def visit_tuple_getitem_(self, op: Any) -> Any:
        item = self.visit_expr_post_order(op)
        norm = definition(self, item.tuple_value)
        if int(item.index) != 0 or not is_call(norm, "nn.batch_norm"):
            return item
        data, attrs = norm.args[0], norm.attrs
        parameters = [self._constant(argument) for argument in norm.args[1:5]]
        if any(array is None for array in parameters):
            return item
        gamma, beta, mean, variance = (np.asarray(array, "float64") for array in parameters)
        scale = (gamma if attrs.scale else 1.0) / np.sqrt(variance + float(attrs.epsilon))
        shift = (beta if attrs.center else 0.0) - mean * scale
        axis = int(attrs.axis) % data.ty.ndim
        product, bias = self._split_bias(data, axis)
        folded = self._scale(product, axis, scale)
        if folded is None:
            scaled = relax.op.multiply(data, _along(scale, axis, data))
            return relax.op.add(self.builder_.emit(scaled), _along(shift, axis, data))
        return relax.op.add(self.builder_.emit(folded), _along(bias * scale + shift, axis, data))

    def _split_bias(self, data: Any, axis: int) -> tuple[Any, Any]:
        """Return the norm's input without its bias, and the bias: one value for each channel, or 0."""
        call = self._single_use(data)
        if is_call(call, "add"):
            for left, right in (call.args, reversed(call.args)):
                bias = self._constant(right)
                if bias is not None and _is_along(bias, axis, data):
                    return self._single_use(left), bias.astype("float64").reshape(-1)
        return call, 0.0

    def _constant(self, value: Any) -> np.ndarray | None:
        """Evaluate a constant, also a transposed or reshaped one: weights of linear layers, and biases."""
        call = definition(self, value)
        if is_call(call, "reshape") and (array := self._constant(call.args[0])) is not None:
            return array.reshape(fixed_shape(call))
        if is_call(call, "permute_dims") and (array := self._constant(call.args[0])) is not None:
            return np.transpose(array, list(map(int, call.attrs.axes or reversed(range(array.ndim)))))
        return constant(call)

    def _single_use(self, value: Any) -> Any:
        """Return the definition of a variable that is used once; other variables unchanged."""
        return definition(self, value) if self.uses[value] == 1 else value

    def _scale(self, call: Any, axis: int, scale: np.ndarray) -> Any | None:
        """Scale the constant weights of a matmul or convolution; None for other calls."""
        if not is_call(call, "matmul", *CONVOLUTIONS, *TRANSPOSED):
            return None
        weights = self._constant(call.args[1])
        if weights is None:
            return None
        if is_call(call, "matmul"):
            if weights.ndim != 2 or axis != call.ty.ndim - 1:
                return None
            along = 1
        else:
            layout, attrs = str(call.attrs.kernel_layout), call.attrs
            along = layout.find("O")
            if str(attrs.out_layout or attrs.data_layout).find("C") != axis or not layout.isupper():
                return None
            if is_call(call, *TRANSPOSED) and int(attrs.groups) != 1:
                return None  # their weights have the channels of one group
        scaled = weights.astype("float64") * np.reshape(
            scale, [-1 if index == along else 1 for index in range(weights.ndim)]
        )
        dtype = str(call.args[1].ty.dtype)
        return relax.Call(
            call.op, [call.args[0], relax.const(spill_tensor(scaled.astype(dtype)), dtype)], call.attrs, call.ty_args
        )


def _is_along(array: np.ndarray, axis: int, data: Any) -> bool:
    """Whether an array has one value for each channel of a tensor, or one for all."""
    extents = [1] * (data.ty.ndim - array.ndim) + list(array.shape)
    return all(extent == 1 or index == axis for index, extent in enumerate(extents))


def _along(values: Any, axis: int, data: Any) -> Any:
    """Create a constant with one value for each channel, which broadcasts to a tensor."""
    dtype = str(data.ty.dtype)
    extents = [-1 if index == axis else 1 for index in range(data.ty.ndim)]
    return relax.const(np.reshape(values, extents).astype(dtype), dtype)
