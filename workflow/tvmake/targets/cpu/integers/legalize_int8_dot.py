"""Rewrite matmuls and convolutions of 8-bit integers for a CPU's dot-product instructions.

The instructions expect data of one signedness and a fixed number of products. Data of the other signedness are shifted
by 128. The shift adds 128 Σ w to each sum, which is subtracted again; the term depends on weights alone, so it is
computed when the package is built. Channels are padded with zeros, except channels of groups. If a convolution has so
few channels that most would be zeros, as for a grey image, the values under one row of the kernel window become the
channels of one pixel. All of it is exact.
"""

from collections.abc import Collection, Sequence
from typing import Any

import tvm

from tvmake.ir.expressions import extents, fixed_shape, is_call, operator_name
from tvmake.ir.rewriting import definition, rewritten
from tvmake.targets.cpu.integers.dots import Dot, dots

from tvm import relax, te  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

SMALL = ("int8", "uint8")

INJECTIVE = 2
"""``OpPatternKind`` kInjective (include/tvm/relax/op_attr_types.h)."""

MIDDLE = 128
"""The difference between a signed value and the unsigned value at the same rank."""


def legalize_int8_dot(module: "tvm.IRModule", target: "tvm.target.Target", inputs: int) -> "tvm.IRModule":
    """Rewrite the network's integer matmuls for a target's instructions; unchanged if there are none.

    Args:
        inputs: number of model inputs among ``main``'s arguments; the others are weights.
    """
    if not _has_int8_matmuls(module):
        return module
    instructions = dots(target)
    if not instructions:
        return module
    return rewritten(module, _Int8DotLegalizer(module, instructions, inputs))


def _has_int8_matmuls(module: "tvm.IRModule") -> bool:
    matmuls: list[Any] = []

    def note(node: Any) -> None:
        if _is_int8_matmul(node):
            matmuls.append(node)

    relax.analysis.post_order_visit(module["main"], note)
    return bool(matmuls)


def _is_int8_matmul(node: Any) -> bool:
    """Whether a node is a matmul or convolution of 8-bit integers that the schedules support."""
    if not is_call(node, "nn.conv2d", "matmul") or str(node.ty.dtype) != "int32":
        return False
    x, weight = node.args
    shape = fixed_shape(weight)
    if str(x.ty.dtype) not in SMALL or str(weight.ty.dtype) != "int8" or not extents(x) or shape is None:
        return False
    if is_call(node, "matmul"):
        return int(x.ty.ndim) >= 2 and int(weight.ty.ndim) == 2
    attrs = node.attrs
    layouts = (str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout))
    is_depthwise = int(attrs.groups) > 1 and shape[3] == 1
    return layouts == ("NHWC", "OHWI", "NHWC") and not is_depthwise


@mutator
class _Int8DotLegalizer(PyExprMutator):
    def __init__(self, module: "tvm.IRModule", instructions: Sequence[Dot], inputs: int):
        super().__init__(module)
        self._dots = instructions
        self._weights = set(module["main"].params[inputs:])
        self._shifted: dict[Any, Any] = {}

    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        if not _is_int8_matmul(call) or not self._is_weight(call.args[1], self._weights):
            return call
        return self._legalize(call)

    def _is_weight(self, value: Any, weights: Collection[Any]) -> bool:
        """Whether a value depends on weights alone."""
        if isinstance(value, tvm.ir.GenericConst) or value in weights:
            return True
        result = definition(self, value)
        if not operator_name(result):
            return False
        tensors = [argument for argument in result.args if isinstance(argument.ty, relax.TensorType)]
        return bool(tensors) and all(self._is_weight(tensor, weights) for tensor in tensors)

    def _legalize(self, call: Any) -> Any:
        emit = self.builder_.emit
        is_convolution = is_call(call, "nn.conv2d")
        instructions = [dot for dot in self._dots if str(call.args[0].ty.dtype) in dot.data]
        is_shifted = not instructions
        group = (instructions or self._dots)[0].group
        if is_convolution and _gains_from_rows(call, group):
            call = self._rows_to_channels(call, group)
        x, weight = call.args
        sums, outputs = (3, 0) if is_convolution else (0, 1)
        shape = fixed_shape(weight)
        assert shape is not None
        groups = int(call.attrs.groups) if is_convolution else 1
        lanes = [dot.lanes for dot in instructions or self._dots]
        more = -shape[sums] % group
        if groups > 1 and (more or all(shape[outputs] // groups % count for count in lanes)):
            return call  # padding the channels of each group would cost more than it gains
        columns = 0 if groups > 1 or any(shape[outputs] % count == 0 for count in lanes) else -shape[outputs] % lanes[0]
        padding = [int(width) for width in call.attrs.padding] if is_convolution else []
        if is_shifted:
            x = self._shift(x)
        zero = _shifted_zero(x) if is_shifted else 0
        widths = [0] * (2 * int(x.ty.ndim))
        widths[-1] = more
        if any(padding) and (is_shifted or more):
            widths[2:6] = [padding[0], padding[2], padding[1], padding[3]]
            padding = [0] * 4
        if any(widths):
            x = emit(relax.op.nn.pad(x, widths, pad_value=zero))
        if more or columns:
            filling = [0] * (2 * len(shape))
            filling[2 * sums + 1], filling[2 * outputs + 1] = more, columns
            weight = emit(relax.op.nn.pad(weight, filling, pad_value=0))
        if is_convolution:
            result = relax.op.nn.conv2d(
                x,
                weight,
                strides=[int(step) for step in call.attrs.strides],
                padding=padding,
                dilation=[int(step) for step in call.attrs.dilation],
                groups=groups,
                data_layout="NHWC",
                kernel_layout="OHWI",
                out_dtype="int32",
            )
        else:
            result = relax.op.matmul(x, weight, out_dtype="int32")
        if is_shifted:
            wide = emit(relax.op.astype(weight, "int32"))
            axes = [axis for axis in range(len(shape)) if axis != outputs]
            totals = emit(relax.op.sum(emit(relax.op.multiply(wide, relax.const(-zero, "int32"))), axes))
            result = relax.op.add(emit(result), totals)
        if columns:
            axis = int(result.ty.ndim if isinstance(result, relax.Var) else call.ty.ndim) - 1
            result = relax.op.strided_slice(emit(result), [axis], [0], [shape[outputs]])
        return result

    def _rows_to_channels(self, call: Any, group: int) -> Any:
        """A convolution whose channels are the values under one row of the kernel window, padded to whole groups."""
        emit, op = self.builder_.emit, relax.op
        x, weight = call.args
        attrs, shape = call.attrs, fixed_shape(weight)
        assert shape is not None
        filters, height, width, channels = shape
        top, left, bottom, right = (int(pad_width) for pad_width in attrs.padding)
        row = width * channels
        more, stride, dilation = -row % group, int(attrs.strides[1]), int(attrs.dilation[1])
        if any((top, left, bottom, right)):
            x = emit(op.nn.pad(x, [0, 0, top, bottom, left, right, 0, 0], pad_value=0))
        length = extents(x)[2]
        positions = (length - (dilation * (width - 1) + 1)) // stride + 1

        def rows(x: Any) -> Any:
            def value(n: Any, y: Any, place: Any, k: Any) -> Any:
                # Values beyond a row are multiplied by zeros.
                inside = tvm.tirx.min(k, row - 1)
                return x[n, y, place * stride + inside // channels * dilation, inside % channels]

            return te.compute((x.shape[0], x.shape[1], positions, row + more), value, name="rows")

        x = self.builder_.call_te(rows, x, primfunc_name_hint="window_rows", primfunc_attrs={"op_pattern": INJECTIVE})
        weight = emit(op.reshape(weight, [filters, height, 1, row]))
        if more:
            weight = emit(op.nn.pad(weight, [0, 0, 0, 0, 0, 0, 0, more], pad_value=0))
        result = op.nn.conv2d(
            emit(x), weight, strides=[int(attrs.strides[0]), 1], padding=0, dilation=[int(attrs.dilation[0]), 1],
            data_layout="NHWC", kernel_layout="OHWI", out_dtype="int32",
        )  # fmt: skip
        return self.builder_.normalize(result)

    def _shift(self, x: Any) -> Any:
        """The data with the other signedness, computed once for all readers."""
        if x not in self._shifted:
            emit, signed = self.builder_.emit, str(x.ty.dtype) == "int8"
            wide = emit(relax.op.astype(x, "int16"))
            shifted = emit(relax.op.add(wide, relax.const(MIDDLE if signed else -MIDDLE, "int16")))
            self._shifted[x] = emit(relax.op.astype(shifted, "uint8" if signed else "int8"))
        return self._shifted[x]


def _gains_from_rows(call: Any, group: int) -> bool:
    """Whether padded window rows need at most three quarters of the products that padded channels need."""
    shape = fixed_shape(call.args[1])
    if shape is None or int(call.attrs.groups) > 1:
        return False
    _, _, width, channels = shape
    return 4 * -(-width * channels // group) <= 3 * width * -(-channels // group)


def _shifted_zero(x: Any) -> int:
    """The value that represents 0 in shifted data."""
    return MIDDLE if str(x.ty.dtype) == "uint8" else -MIDDLE
