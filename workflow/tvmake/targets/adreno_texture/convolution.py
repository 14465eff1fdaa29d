"""Legalise convolutions in NCHW4c with the requested accumulator dtype, grouped convolutions included.

Repair: `adreno-conv2d-accumulator`.
"""

from typing import Any

import tvm

from tvmake.ir.expressions import dtype_name

from tvm import te, topi  # isort: skip
from tvm.relax.transform.legalize_ops.nn import _nn_conv2d as plain  # isort: skip

DATA, KERNEL = "NCHW4c", "OIHW4o"


def legalize_conv2d(builder: "tvm.relax.BlockBuilder", call: "tvm.relax.Call") -> Any:
    """LegalizeOps callback for ``relax.nn.conv2d``."""
    attributes = call.attrs
    if attributes.data_layout != DATA:
        return plain(builder, call)
    return builder.call_te(
        conv2d_nchw4c,
        call.args[0],
        call.args[1],
        strides=[int(value) for value in attributes.strides],
        padding=[int(value) for value in attributes.padding],
        dilation=[int(value) for value in attributes.dilation],
        groups=int(attributes.groups),
        out_dtype=dtype_name(call.ty),
        ty_args=call.ty_args,
        # dlight's schedule looks for this name.
        primfunc_name_hint="conv2d_NCHWc_OIHWo",
    )


def conv2d_nchw4c(
    data: "te.Tensor",
    kernel: "te.Tensor",
    strides: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
    out_dtype: str,
) -> "te.Tensor":
    """Convolution of blocks of four channels.

    Args:
        data: batch, channel block, height, width, 4.
        kernel: output channel block, input channels of a group, height, width, 4.
        padding: top, left, bottom, right.
    """
    batch, _, height, width, lanes = (int(extent) for extent in data.shape)
    out_blocks, depth, kernel_height, kernel_width, out_lanes = (int(extent) for extent in kernel.shape)
    top, left, bottom, right = padding
    out_height = (height + top + bottom - (kernel_height - 1) * dilation[0] - 1) // strides[0] + 1
    out_width = (width + left + right - (kernel_width - 1) * dilation[1] - 1) // strides[1] + 1
    padded = data
    if any(padding):
        padded = topi.nn.pad(data, (0, 0, top, left, 0), (0, 0, bottom, right, 0), name="conv2d_data_pad")
    channel = te.reduce_axis((0, depth), name="ic")
    row = te.reduce_axis((0, kernel_height), name="kh")
    column = te.reduce_axis((0, kernel_width), name="kw")
    per_group = out_blocks * out_lanes // groups

    def value(n: Any, block: Any, y: Any, x: Any, lane: Any) -> Any:
        source = channel
        if groups > 1:
            source = te.indexdiv(block * out_lanes + lane, per_group) * depth + channel
        read = padded[
            n,
            te.indexdiv(source, lanes),
            y * strides[0] + row * dilation[0],
            x * strides[1] + column * dilation[1],
            te.indexmod(source, lanes),
        ]
        weight = kernel[block, channel, row, column, lane]
        return te.sum(read.astype(out_dtype) * weight.astype(out_dtype), axis=[channel, row, column])

    return te.compute(
        (batch, out_blocks, out_height, out_width, out_lanes),
        value,
        name="conv2d_NCHWc_OIHWo",
        tag="conv2d_NCHWc_OIHWo",
    )
