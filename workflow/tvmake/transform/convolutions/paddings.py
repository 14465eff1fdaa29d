"""Fuse zero padding before a convolution into the convolution's padding.

Exporters write the asymmetric padding of TensorFlow's "same" and of causal convolutions as a separate operator. Its kernel
takes a pass over memory and blocks the propagation of layouts. The convolution's schedule pads as it reads.
"""

from typing import Any

import tvm

from tvmake.ir.expressions import is_call, operator_name
from tvmake.ir.rewriting import definition, rewrite_calls

from tvm import relax  # isort: skip

CONVOLUTIONS: dict[str, tuple[Any, str]] = {
    "nn.conv1d": (relax.op.nn.conv1d, "NCW"),
    "nn.conv2d": (relax.op.nn.conv2d, "NCHW"),
    "nn.conv3d": (relax.op.nn.conv3d, "NCDHW"),
}


def fold_paddings(module: "tvm.IRModule") -> "tvm.IRModule":
    """Fuse zero padding into the convolutions after it."""
    return relax.transform.DeadCodeElimination()(rewrite_calls(module, _fold_padding))


def _fold_padding(visitor: Any, op: Any, call: Any) -> Any:
    make, layout = CONVOLUTIONS.get(operator_name(call), (None, ""))
    if make is None or str(call.attrs.data_layout) != layout:
        return call
    padded, weights = call.args
    pad = definition(visitor, padded)
    zeros = _zeros(pad)
    if zeros is None:
        return call
    attrs, rank = call.attrs, len(layout) - 2
    padding = [int(width) + zeros[index % rank][index // rank] for index, width in enumerate(attrs.padding)]
    return make(
        pad.args[0],
        weights,
        strides=list(map(int, attrs.strides)),
        padding=padding,
        dilation=list(map(int, attrs.dilation)),
        groups=int(attrs.groups),
        data_layout=layout,
        kernel_layout=str(attrs.kernel_layout),
        out_dtype=attrs.out_dtype,
    )


def _zeros(call: Any) -> list[tuple[int, int]] | None:
    """Return the zeros before and after each spatial axis; None if a call is not a zero padding of spatial axes."""
    if not is_call(call, "nn.pad"):
        return None
    attrs = call.attrs
    widths = [int(width) for width in attrs.pad_width]
    if str(attrs.pad_mode) != "constant" or float(attrs.pad_value) != 0 or any(widths[:4]) or min(widths) < 0:
        return None
    return list(zip(widths[4::2], widths[5::2], strict=True))
