"""Bias correction: subtract the mean error of each output channel that rounding to 8 bits causes.

Rounding errors of a layer's weights do not cancel in its sums, so each output channel has a constant error. Nagel et al.,
"Data-Free Quantization Through Weight Equalization and Bias Correction" (ICCV 2019), section 4.2, in its empirical form
(appendix D): the mean of the quantised layer minus that of the float layer, over the calibration data. Each layer is
measured separately, on the float network's activations rounded to their grid, so that no layer compensates for an error
that is already corrected.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm

from tvmake.artifact.calibration import TensorRange
from tvmake.quantize.calibrated.insertion import grid
from tvmake.quantize.calibrated.sites import Sites, with_outputs
from tvmake.quantize.weights.channels import channel_axis, weight_integers

from tvm import relax  # isort: skip


def measuring(module: "tvm.IRModule", sites: Sites, ranges: Sequence[TensorRange]) -> "tvm.IRModule":
    """Return the network whose ``main`` returns the mean error of each channel of each product, for one input."""
    builder = relax.BlockBuilder()
    bindings: list[Any] = []

    def emit(value: Any) -> Any:
        value = builder.normalize(value)
        variable = relax.Var(f"shift_{len(bindings)}", value.ty)
        bindings.append(relax.VarBinding(variable, value))
        return variable

    grids = {tensor: grid(covered) for tensor, covered in zip(sites.tensors, ranges, strict=True)}
    # Round an operand of several products once.
    rounded: dict[Any, Any] = {}
    shifts = []
    for product, result, origin in zip(sites.products, sites.results, sites.origins, strict=True):
        operand = product.args[0]
        if operand not in rounded:
            rounded[operand] = in_8_bits(emit, operand, *grids[origin])
        weight = relax.const(round_weight(product), "float32")
        sums = emit(relax.Call(product.op, [rounded[operand], weight], product.attrs, product.ty_args))
        axis = channel_axis(product)
        axes = [index for index in range(int(product.ty.ndim)) if index != axis]
        shifts.append(emit(relax.op.mean(emit(relax.op.subtract(sums, result)), axis=axes)))
    return with_outputs(module, bindings, shifts)


def in_8_bits(emit: Any, operand: Any, dtype: str, scale: np.ndarray, zero: np.ndarray) -> Any:
    """Round a tensor to 8 bits; the result is in float32."""
    op = relax.op
    inverse = np.asarray(1 / scale.astype(np.float64), np.float32)
    low, high = (float(bound(dtype).value) - int(zero) for bound in (tvm.tirx.min_value, tvm.tirx.max_value))
    steps = emit(op.round(emit(op.multiply(operand, relax.const(inverse, "float32")))))
    below = emit(op.minimum(steps, relax.const(high, "float32")))
    return emit(op.multiply(emit(op.maximum(below, relax.const(low, "float32"))), relax.const(scale, "float32")))


def round_weight(product: Any) -> np.ndarray:
    """Round a product's weight to 8 bits; the result is in float32."""
    integers, scale, axis = weight_integers(product)
    return integers.astype(np.float32) * scale.reshape([-1 if index == axis else 1 for index in range(integers.ndim)])
