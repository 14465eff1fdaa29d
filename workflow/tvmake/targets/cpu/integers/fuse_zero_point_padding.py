"""Fuse padding with a zero point into depthwise convolutions of 8-bit integers.

A convolution's own padding is 0, but the zero point of quantised data is another integer. As a separate kernel, the
padding is a pass over memory that takes half as long as the convolution. Once fused, the schedule computes it for a few
rows at a time. Other convolutions of 8-bit integers take much longer than the pass.
"""

from typing import Any

import tvm
from tvm import topi

from tvmake.ir.expressions import is_call
from tvmake.ir.rewriting import definition, rewrite_calls
from tvmake.targets.cpu.integers.legalize_int8_dot import SMALL

from tvm import relax  # isort: skip

TO_NHWC, TO_NCHW = [0, 2, 3, 1], [0, 3, 1, 2]


def fuse_zero_point_padding(module: "tvm.IRModule") -> "tvm.IRModule":
    """Fuse such padding into the kernels that read it."""
    return relax.transform.DeadCodeElimination()(rewrite_calls(module, _fuse_padding))


def _fuse_padding(visitor: Any, op: Any, call: Any) -> Any:
    if not _is_depthwise(call):
        return call
    match = _match_padding(visitor, call.args[0])
    if match is None:
        return call
    data, widths, value = match
    attrs = call.attrs

    def kernel(x: Any, weight: Any) -> Any:
        padded = topi.nn.pad(x, widths[0::2], widths[1::2], tvm.tirx.const(value, x.dtype))
        strides, padding, dilation = (
            [int(step) for step in sizes] for sizes in (attrs.strides, attrs.padding, attrs.dilation)
        )
        return topi.nn.conv(
            padded, weight, strides, padding, dilation, int(attrs.groups), "NHWC", "OHWI", str(attrs.out_dtype)
        )  # fmt: skip

    return visitor.builder_.call_te(kernel, data, call.args[1], primfunc_name_hint="conv2d")


def _match_padding(visitor: Any, value: Any) -> tuple[Any, list[int], int] | None:
    """Match padding before an NHWC feature map; gives the unpadded map, the widths and the value, or None."""
    producer = definition(visitor, value)
    is_transposed = _is_transpose(producer, TO_NHWC)
    if is_transposed:
        producer = definition(visitor, producer.args[0])
    if not is_call(producer, "nn.pad") or str(producer.attrs.pad_mode) != "constant":
        return None
    widths = [int(width) for width in producer.attrs.pad_width]
    if min(widths) < 0:
        return None
    data = producer.args[0]
    if is_transposed:
        widths = [width for axis in TO_NHWC for width in widths[2 * axis : 2 * axis + 2]]
        data_producer = definition(visitor, data)
        transposed = (
            data_producer.args[0] if _is_transpose(data_producer, TO_NCHW) else relax.op.permute_dims(data, TO_NHWC)
        )
        data = transposed if isinstance(transposed, relax.Var) else visitor.builder_.emit(transposed)
    return data, widths, int(producer.attrs.pad_value)


def _is_depthwise(call: Any) -> bool:
    if not is_call(call, "nn.conv2d") or str(call.args[0].ty.dtype) not in SMALL:
        return False
    attrs = call.attrs
    layouts = (str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout))
    return layouts == ("NHWC", "OHWI", "NHWC") and int(attrs.groups) > 1 and int(call.args[1].ty.shape[3]) == 1


def _is_transpose(producer: Any, axes: list[int]) -> bool:
    return is_call(producer, "permute_dims") and list(map(int, producer.attrs.axes or ())) == axes
