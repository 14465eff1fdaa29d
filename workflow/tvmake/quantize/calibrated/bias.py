"""Bias correction: what rounding weights and activations to 8 bits shifts a product by on average is taken off again.

Rounding errors of a layer's weights do not cancel in its sums, so that each output channel is off by a constant. Nagel et al.,
"Data-Free Quantization Through Weight Equalization and Bias Correction" (ICCV 2019), section 4.2, in its empirical form (appendix D):
the mean of the quantised product less that of the float one, over the calibration data. Each product is measured by itself, on the float
network's activations rounded to their grid, so that no product makes up for what another one is corrected for already.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm

from tvmake.artifact.calibration import TensorRange
from tvmake.quantize.calibrated.insertion import grid
from tvmake.quantize.calibrated.sites import Sites, returning
from tvmake.quantize.weights.channels import channel_axis, weight_integers

from tvm import relax  # isort: skip


def measuring(module: "tvm.IRModule", sites: Sites, ranges: Sequence[TensorRange]) -> "tvm.IRModule":
    """The network with ``main`` returning, for each product, by how much 8 bits shift each of its channels, on average of an input."""
    builder = relax.BlockBuilder()
    bindings: list[Any] = []

    def emit(value: Any) -> Any:
        value = builder.normalize(value)
        variable = relax.Var(f"shift_{len(bindings)}", value.ty)
        bindings.append(relax.VarBinding(variable, value))
        return variable

    grids = {tensor: grid(found) for tensor, found in zip(sites.tensors, ranges, strict=True)}
    # Operands that several products read are rounded once.
    rounded: dict[Any, Any] = {}
    shifts = []
    for product, result, origin in zip(sites.products, sites.results, sites.origins, strict=True):
        operand = product.args[0]
        if operand not in rounded:
            rounded[operand] = in_8_bits(emit, operand, *grids[origin])
        weight = relax.const(rounded_weight(product), "float32")
        sums = emit(relax.Call(product.op, [rounded[operand], weight], product.attrs, product.ty_args))
        axis = channel_axis(product)
        others = [place for place in range(int(product.ty.ndim)) if place != axis]
        shifts.append(emit(relax.op.mean(emit(relax.op.subtract(sums, result)), axis=others)))
    return returning(module, bindings, shifts)


def in_8_bits(emit: Any, operand: Any, dtype: str, scale: np.ndarray, zero: np.ndarray) -> Any:
    """What 8 bits make of a tensor, in float32."""
    op = relax.op
    inverse = np.asarray(1 / scale.astype(np.float64), np.float32)
    low, high = (float(bound(dtype).value) - int(zero) for bound in (tvm.tirx.min_value, tvm.tirx.max_value))
    steps = emit(op.round(emit(op.multiply(operand, relax.const(inverse, "float32")))))
    below = emit(op.minimum(steps, relax.const(high, "float32")))
    return emit(op.multiply(emit(op.maximum(below, relax.const(low, "float32"))), relax.const(scale, "float32")))


def rounded_weight(product: Any) -> np.ndarray:
    """What 8 bits make of a product's weight, in float32."""
    integers, scale, axis = weight_integers(product)
    return integers.astype(np.float32) * scale.reshape([-1 if place == axis else 1 for place in range(integers.ndim)])
