"""Fuse padding with a zero point into depthwise convolutions of 8-bit integers.

The zero of quantised data is some integer, whereas a convolution's own padding is 0. As a kernel of its own, the padding is a pass over memory
that takes half as long as the convolution; fused, the schedule computes it for a few rows at a time. Other convolutions of 8-bit integers
take much longer than the pass.
"""

from typing import Any

import tvm
from tvm import topi

from tvmake.ir.expressions import is_call
from tvmake.ir.rewriting import definition, rewritten
from tvmake.targets.cpu.integers.legalize_int8_dot import SMALL

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

TO_NHWC, TO_NCHW = [0, 2, 3, 1], [0, 3, 1, 2]


def fuse_zero_point_padding(module: "tvm.IRModule") -> "tvm.IRModule":
    """The network with such padding fused into the kernels that read it."""
    return relax.transform.DeadCodeElimination()(rewritten(module, _ZeroPointPaddingFuser(module)))


@mutator
class _ZeroPointPaddingFuser(PyExprMutator):
    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        if not _is_depthwise(call):
            return call
        border = self._border(call.args[0])
        if border is None:
            return call
        data, widths, value = border
        attrs = call.attrs

        def kernel(x: Any, weight: Any) -> Any:
            padded = topi.nn.pad(x, widths[0::2], widths[1::2], tvm.tirx.const(value, x.dtype))
            strides, padding, dilation = (
                [int(step) for step in each] for each in (attrs.strides, attrs.padding, attrs.dilation)
            )
            return topi.nn.conv(
                padded, weight, strides, padding, dilation, int(attrs.groups), "NHWC", "OHWI", str(attrs.out_dtype)
            )  # fmt: skip

        return self.builder_.call_te(kernel, data, call.args[1], primfunc_name_hint="conv2d")

    def _border(self, value: Any) -> tuple[Any, list[int], int] | None:
        """What a feature map in NHWC is without its border, how wide this is, and what it is of; None where there is none."""
        made = definition(self, value)
        is_turned = _turns(made, TO_NHWC)
        if is_turned:
            made = definition(self, made.args[0])
        if not is_call(made, "nn.pad") or str(made.attrs.pad_mode) != "constant":
            return None
        widths = [int(width) for width in made.attrs.pad_width]
        if min(widths) < 0:
            return None
        data = made.args[0]
        if is_turned:
            widths = [width for axis in TO_NHWC for width in widths[2 * axis : 2 * axis + 2]]
            before = definition(self, data)
            turned = before.args[0] if _turns(before, TO_NCHW) else relax.op.permute_dims(data, TO_NHWC)
            data = turned if isinstance(turned, relax.Var) else self.builder_.emit(turned)
        return data, widths, int(made.attrs.pad_value)


def _is_depthwise(call: Any) -> bool:
    if not is_call(call, "nn.conv2d") or str(call.args[0].ty.dtype) not in SMALL:
        return False
    attrs = call.attrs
    layouts = (str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout))
    return layouts == ("NHWC", "OHWI", "NHWC") and int(attrs.groups) > 1 and int(call.args[1].ty.shape[3]) == 1


def _turns(made: Any, axes: list[int]) -> bool:
    return is_call(made, "permute_dims") and list(map(int, made.attrs.axes or ())) == axes
