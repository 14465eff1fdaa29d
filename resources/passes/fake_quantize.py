"""Estimate the accuracy cost of quantised weights before anything is quantised.

Every constant weight of a convolution or matmul is rounded to the values that a signed integer of a few bits
can represent, with a scale for each output channel, and stays a float: the kernels are the same, the values are those of a
quantised network. Activations are unchanged. docs/guides/passes.md explains it.
"""

from collections.abc import Callable

import numpy as np
import tvm
from tvm import relax
from tvm.relax.dpl import is_const, is_op, rewrite_call, wildcard


def quantize_weights(bits: int = 8) -> Callable[[tvm.IRModule], tvm.IRModule]:
    """Create the pass.

    Args:
        bits: width of the signed integers; they are symmetric, so 8 bits means -127 … 127.
    """
    if not 2 <= bits <= 16:
        raise ValueError(f"bits is {bits}, not between 2 and 16")

    data, weight = wildcard(), is_const()
    pattern = is_op("relax.nn.conv2d")(data, weight) | is_op("relax.matmul")(data, weight)

    def rewritten(call: relax.Call, matched: dict) -> relax.Expr:
        """The call with the rounded weight. ``matched`` maps each part of the pattern to the expression that it matched."""
        values = matched[weight].value.numpy()
        if values.dtype.kind != "f":
            return call
        rounded = relax.const(quantize_dequantize(values, _output_axis(call), bits), str(values.dtype))
        return relax.Call(call.op, [matched[data], rounded], call.attrs, call.ty_args)

    def rewrite(module: tvm.IRModule) -> tvm.IRModule:
        changed = tvm.IRModule(module.functions, attrs=module.attrs, global_infos=module.global_infos)
        changed["main"] = rewrite_call(pattern, rewritten, module["main"])
        return changed

    return rewrite


def quantize_dequantize(values: np.ndarray, axis: int, bits: int) -> np.ndarray:
    """Round ``values`` to multiples of a scale for each index of ``axis``; shape and dtype are kept.

    The scale maps the channel's largest magnitude to the largest integer: symmetric per-channel quantisation as in
    Krishnamoorthi, "Quantizing deep convolutional networks for efficient inference" (2018), section 2.
    """
    others = tuple(other for other in range(values.ndim) if other != axis % values.ndim)
    largest = 2 ** (bits - 1) - 1
    scale = np.abs(values.astype("float64")).max(axis=others, keepdims=True) / largest
    scale[scale == 0] = 1
    return (np.rint(values / scale) * scale).astype(values.dtype)


def _output_axis(call: relax.Call) -> int:
    """The weight's axis of output channels; for a matmul the last one."""
    return str(call.attrs.kernel_layout).index("O") if str(call.op.name) == "relax.nn.conv2d" else -1
