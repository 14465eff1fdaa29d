"""Rewrite matmuls and convolutions of 8-bit integers for a CPU's dot-product instructions.

The instructions want data of one sign, and sums of a multiple of some terms. Data of the other sign are shifted by 128, and what that adds to
each sum, 128 Σ w, is subtracted; it depends on weights alone, so that it is computed when the package is built. Channels are padded with
zeros, but not those of groups. If a convolution reads so few channels that most would be zeros, as in a grey image, the values that a row of its
window reads become the channels of one pixel. All of it is exact.
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
"""Between a signed value and the unsigned one with the same order."""


def legalize_int8_dot(module: "tvm.IRModule", target: "tvm.target.Target", inputs: int) -> "tvm.IRModule":
    """The network with its integer products as a target's instructions want them; as it is where there are none.

    Args:
        inputs: how many of ``main``'s arguments are the model's inputs; the others are weights.
    """
    if not _has_products(module):
        return module
    found = dots(target)
    if not found:
        return module
    return rewritten(module, _Int8DotLegalizer(module, found, inputs))


def _has_products(module: "tvm.IRModule") -> bool:
    found: list[Any] = []

    def note(node: Any) -> None:
        if _is_product(node):
            found.append(node)

    relax.analysis.post_order_visit(module["main"], note)
    return bool(found)


def _is_product(node: Any) -> bool:
    """Whether a node is a product of small integers that there are schedules for."""
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
    def __init__(self, module: "tvm.IRModule", found: Sequence[Dot], inputs: int):
        super().__init__(module)
        self._dots = found
        self._weights = set(module["main"].params[inputs:])
        self._moved: dict[Any, Any] = {}

    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        if not _is_product(call) or not self._is_weight(call.args[1], self._weights):
            return call
        return self._product(call)

    def _is_weight(self, value: Any, weights: Collection[Any]) -> bool:
        """Whether a value depends on weights alone."""
        if isinstance(value, tvm.ir.GenericConst) or value in weights:
            return True
        made = definition(self, value)
        if not operator_name(made):
            return False
        tensors = [argument for argument in made.args if isinstance(argument.ty, relax.TensorType)]
        return bool(tensors) and all(self._is_weight(tensor, weights) for tensor in tensors)

    def _product(self, call: Any) -> Any:
        emit = self.builder_.emit
        is_convolution = is_call(call, "nn.conv2d")
        fitting = [dot for dot in self._dots if str(call.args[0].ty.dtype) in dot.data]
        is_moved = not fitting
        group = (fitting or self._dots)[0].group
        if is_convolution and _saves_by_rows(call, group):
            call = self._by_rows(call, group)
        x, weight = call.args
        sums, outputs = (3, 0) if is_convolution else (0, 1)
        shape = fixed_shape(weight)
        assert shape is not None
        groups = int(call.attrs.groups) if is_convolution else 1
        lanes = [dot.lanes for dot in fitting or self._dots]
        more = -shape[sums] % group
        if groups > 1 and (more or all(shape[outputs] // groups % count for count in lanes)):
            return call  # zeros among the channels of each group would cost more than they bring
        columns = 0 if groups > 1 or any(shape[outputs] % count == 0 for count in lanes) else -shape[outputs] % lanes[0]
        padding = [int(width) for width in call.attrs.padding] if is_convolution else []
        if is_moved:
            x = self._move(x)
        border = _middle(x) if is_moved else 0
        widths = [0] * (2 * int(x.ty.ndim))
        widths[-1] = more
        if any(padding) and (is_moved or more):
            widths[2:6] = [padding[0], padding[2], padding[1], padding[3]]
            padding = [0] * 4
        if any(widths):
            x = emit(relax.op.nn.pad(x, widths, pad_value=border))
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
        if is_moved:
            wide = emit(relax.op.astype(weight, "int32"))
            axes = [axis for axis in range(len(shape)) if axis != outputs]
            totals = emit(relax.op.sum(emit(relax.op.multiply(wide, relax.const(-border, "int32"))), axes))
            result = relax.op.add(emit(result), totals)
        if columns:
            axis = int(result.ty.ndim if isinstance(result, relax.Var) else call.ty.ndim) - 1
            result = relax.op.strided_slice(emit(result), [axis], [0], [shape[outputs]])
        return result

    def _by_rows(self, call: Any, group: int) -> Any:
        """A convolution whose channels are what a row of its window reads, filled up to whole groups."""
        emit, op = self.builder_.emit, relax.op
        x, weight = call.args
        attrs, shape = call.attrs, fixed_shape(weight)
        assert shape is not None
        filters, height, width, channels = shape
        top, left, bottom, right = (int(each) for each in attrs.padding)
        row = width * channels
        more, stride, dilation = -row % group, int(attrs.strides[1]), int(attrs.dilation[1])
        if any((top, left, bottom, right)):
            x = emit(op.nn.pad(x, [0, 0, top, bottom, left, right, 0, 0], pad_value=0))
        length = extents(x)[2]
        places = (length - (dilation * (width - 1) + 1)) // stride + 1

        def rows(x: Any) -> Any:
            def value(n: Any, y: Any, place: Any, k: Any) -> Any:
                # What is beyond a row is multiplied with zeros.
                inside = tvm.tirx.min(k, row - 1)
                return x[n, y, place * stride + inside // channels * dilation, inside % channels]

            return te.compute((x.shape[0], x.shape[1], places, row + more), value, name="rows")

        x = self.builder_.call_te(rows, x, primfunc_name_hint="window_rows", primfunc_attrs={"op_pattern": INJECTIVE})
        weight = emit(op.reshape(weight, [filters, height, 1, row]))
        if more:
            weight = emit(op.nn.pad(weight, [0, 0, 0, 0, 0, 0, 0, more], pad_value=0))
        made = op.nn.conv2d(
            emit(x), weight, strides=[int(attrs.strides[0]), 1], padding=0, dilation=[int(attrs.dilation[0]), 1],
            data_layout="NHWC", kernel_layout="OHWI", out_dtype="int32",
        )  # fmt: skip
        return self.builder_.normalize(made)

    def _move(self, x: Any) -> Any:
        """Data in the other sign, once for all that read it."""
        if x not in self._moved:
            emit, signed = self.builder_.emit, str(x.ty.dtype) == "int8"
            wide = emit(relax.op.astype(x, "int16"))
            moved = emit(relax.op.add(wide, relax.const(MIDDLE if signed else -MIDDLE, "int16")))
            self._moved[x] = emit(relax.op.astype(moved, "uint8" if signed else "int8"))
        return self._moved[x]


def _saves_by_rows(call: Any, group: int) -> bool:
    """Whether rows of windows filled up to whole groups are at most three quarters of as many products as channels filled up."""
    shape = fixed_shape(call.args[1])
    if shape is None or int(call.attrs.groups) > 1:
        return False
    _, _, width, channels = shape
    return 4 * -(-width * channels // group) <= 3 * width * -(-channels // group)


def _middle(x: Any) -> int:
    """What stands for 0 in data that have been moved."""
    return MIDDLE if str(x.ty.dtype) == "uint8" else -MIDDLE
