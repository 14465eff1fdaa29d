"""Batch norms folded into the weights before them; where there are none, as one product and one sum.

TVM's ``FoldBatchnormToConv2D`` takes two-dimensional convolutions without a bias only. Of others, and of batch norms before activations, as in
DenseNet and ResNet v2, ``DecomposeOpsForInference`` writes a difference, a division, a product and a sum.
"""

from collections import Counter
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from tvmake.ir.expressions import constant, fixed_shape, is_call
from tvmake.ir.rewriting import definition, rewritten

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d")
TRANSPOSED = ("nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose")


def fold_batch_norms(module: "tvm.IRModule") -> "tvm.IRModule":
    """The network without batch norms whose parameters, and the weights before them, are constants."""
    return relax.transform.DeadCodeElimination()(rewritten(module, _BatchNormFolder(module)))


@mutator
class _BatchNormFolder(PyExprMutator):
    def __init__(self, module: "tvm.IRModule"):
        super().__init__(module)
        self.uses: Counter[Any] = Counter()
        """Of each variable."""

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
        held = [self._held(argument) for argument in norm.args[1:5]]
        if any(array is None for array in held):
            return item
        gamma, beta, mean, variance = (np.asarray(array, "float64") for array in held)
        scale = (gamma if attrs.scale else 1.0) / np.sqrt(variance + float(attrs.epsilon))
        shift = (beta if attrs.center else 0.0) - mean * scale
        axis = int(attrs.axis) % data.ty.ndim
        product, bias = self._before(data, axis)
        folded = self._product(product, axis, scale)
        if folded is None:
            scaled = relax.op.multiply(data, _along(scale, axis, data))
            return relax.op.add(self.builder_.emit(scaled), _along(shift, axis, data))
        return relax.op.add(self.builder_.emit(folded), _along(bias * scale + shift, axis, data))

    def _before(self, data: Any, axis: int) -> tuple[Any, Any]:
        """What is computed for this batch norm alone, without its bias, and the bias: one number for each channel, or 0."""
        made = self._own(data)
        if is_call(made, "add"):
            for value, other in (made.args, reversed(made.args)):
                held = self._held(other)
                if held is not None and _is_along(held, axis, data):
                    return self._own(value), held.astype("float64").reshape(-1)
        return made, 0.0

    def _held(self, value: Any) -> np.ndarray | None:
        """A constant, also one that is turned or reshaped: weights of linear layers, and biases."""
        made = definition(self, value)
        if is_call(made, "reshape") and (held := self._held(made.args[0])) is not None:
            return held.reshape(fixed_shape(made))
        if is_call(made, "permute_dims") and (held := self._held(made.args[0])) is not None:
            return np.transpose(held, list(map(int, made.attrs.axes or reversed(range(held.ndim)))))
        return constant(made)

    def _own(self, value: Any) -> Any:
        """What a variable holds that is used once; the variable otherwise."""
        return definition(self, value) if self.uses[value] == 1 else value

    def _product(self, call: Any, axis: int, scale: np.ndarray) -> Any | None:
        """A product or convolution with its weights times a scale; None for what is none, and where these are computed."""
        if not is_call(call, "matmul", *CONVOLUTIONS, *TRANSPOSED):
            return None
        weights = self._held(call.args[1])
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
                return None  # their weights hold the channels of one group
        scaled = weights.astype("float64") * np.reshape(
            scale, [-1 if place == along else 1 for place in range(weights.ndim)]
        )
        dtype = str(call.args[1].ty.dtype)
        return relax.Call(call.op, [call.args[0], relax.const(scaled.astype(dtype), dtype)], call.attrs, call.ty_args)


def _is_along(held: np.ndarray, axis: int, data: Any) -> bool:
    """Whether an array has one number for each channel of a tensor, or one for all."""
    extents = [1] * (data.ty.ndim - held.ndim) + list(held.shape)
    return all(extent == 1 or place == axis for place, extent in enumerate(extents))


def _along(values: Any, axis: int, data: Any) -> Any:
    """One number for each channel, as a constant to be spread over a tensor."""
    dtype = str(data.ty.dtype)
    extents = [-1 if place == axis else 1 for place in range(data.ty.ndim)]
    return relax.const(np.reshape(values, extents).astype(dtype), dtype)
