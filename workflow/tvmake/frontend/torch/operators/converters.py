"""Converters for operators that TVM's importer for PyTorch lacks or gets wrong.

``elu``: with its scales. Repair: `torch-elu-scale`.
``add`` and ``sub``: with ``alpha``. Repair: `torch-add-alpha`.
``prod`` and ``any``: along an axis, in PyTorch's dtype. Repair: `torch-reductions`.
``native_group_norm``: without weight or bias. Repair: `torch-group-norm-without-weight`.
``max``: along an axis, without a sort. Repair: `torch-max-by-sorting`.
``clamp`` and ``div``: of integers. Repair: `torch-integer-operators`.
``cat``: of several dtypes, and without empty vectors. Repair: `torch-concatenation-types`.
``mul``, ``add``, extrema, comparisons, ``cumsum`` and ``cumprod``: of booleans. Repair: `torch-boolean-arithmetic`.
``expm1`` and ``log1p``: accurate near zero. Repair: `digits-near-zero`.
``remainder``: exact. Repair: `torch-remainders`.
``convolution``: transposed, of volumes. Repair: `torch-conv-transpose3d`.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import fx

from tvmake.frontend.lowering import stable_math
from tvmake.frontend.torch.operators import dynamic_axes
from tvmake.frontend.torch.operators.spatial.max_pool_indices import sizes_per_axis
from tvmake.frontend.torch.program import dtype_name
from tvmake.ir.expressions import constant

from tvm import relax  # isort: skip


ELU_DEFAULTS = (1.0, 1.0, 1.0)
"""Defaults of ``alpha``, ``scale`` and ``input_scale``."""


def _elu(node: fx.Node, importer: Any) -> Any:
    data = importer.env[node.args[0]]
    factors = [float(value) for value in node.args[1:]]
    alpha, scale, input_scale = (*factors, *ELU_DEFAULTS[len(factors) :])
    return importer.block_builder.emit(stable_math.elu(data, alpha, scale, input_scale))


def _unary(function: Callable[[Any], Any]) -> Callable[[fx.Node, Any], Any]:
    return lambda node, importer: importer.block_builder.emit(
        function(importer.block_builder.normalize(importer.env[node.args[0]]))
    )


def _ordered(node: fx.Node, importer: Any) -> tuple[Any, bool]:
    """An operator's data, with booleans as int8 because TVM cannot order them; and whether they are booleans."""
    data = importer.env[node.args[0]]
    is_boolean = node.args[0].meta["val"].dtype is torch.bool
    return (relax.op.astype(data, "int8") if is_boolean else data), is_boolean


def _extreme(reduce: Callable[..., Any]) -> Callable[[fx.Node, Any], Any]:
    def convert(node: fx.Node, importer: Any) -> Any:
        axes = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", [])
        keeps = node.args[2] if len(node.args) > 2 else node.kwargs.get("keepdim", False)
        axes = list(axes) if isinstance(axes, list | tuple) else [axes]
        data, is_boolean = _ordered(node, importer)
        extreme = reduce(data, axes or None, bool(keeps))
        return importer.block_builder.emit(relax.op.astype(extreme, "bool") if is_boolean else extreme)

    return convert


def _product(node: fx.Node, importer: Any) -> Any:
    data, dtype = importer.env[node.args[0]], dtype_name(node)
    axis = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    keeps = node.args[2] if len(node.args) > 2 else node.kwargs.get("keepdim", False)
    if str(data.ty.dtype.dtype) != dtype:  # torch multiplies integers and booleans as int64
        data = importer.block_builder.emit(relax.op.astype(data, dtype))
    return importer.block_builder.emit(relax.op.prod(data, axis, bool(keeps)))


def _native_group_norm(node: fx.Node, importer: Any) -> Any:
    data, weight, bias, _, channels, _, groups, epsilon = node.args
    operand = importer.env[data]
    dtype = str(operand.ty.dtype.dtype)
    scale, shift = (
        importer.env[parameter] if parameter is not None else relax.const(np.full(int(channels), value, dtype), dtype)
        for parameter, value in ((weight, 1), (bias, 0))
    )
    axes = list(range(2, len(operand.ty.shape)))
    return importer.block_builder.emit(relax.op.nn.group_norm(operand, scale, shift, groups, 1, axes, epsilon))


def _add_scaled(operator: Callable[..., Any], name: str) -> Callable[[fx.Node, Any], Any]:
    """``left + alpha · right`` or ``left - alpha · right``."""

    def convert(node: fx.Node, importer: Any) -> Any:
        alpha = node.kwargs.get("alpha", 1)
        if alpha == 1:
            return importer.create_convert_map()[name](node)
        dtype = dtype_name(node)
        left, right = (
            relax.op.astype(importer.env[operand], dtype)
            if isinstance(operand, fx.Node)
            else relax.const(operand, dtype)
            for operand in node.args
        )
        return importer.block_builder.emit(operator(left, relax.op.multiply(right, relax.const(alpha, dtype))))

    return convert


def _logical(
    operator: Callable[..., Any], otherwise: Callable[[fx.Node, Any], Any] | str
) -> Callable[[fx.Node, Any], Any]:
    """An operator on booleans; numbers use TVM's or another converter."""

    def convert(node: fx.Node, importer: Any) -> Any:
        if node.meta["val"].dtype is not torch.bool:
            if isinstance(otherwise, str):
                return importer.create_convert_map()[otherwise](node)
            return otherwise(node, importer)
        operands = [
            importer.env[value] if isinstance(value, fx.Node) else relax.const(bool(value), "bool")
            for value in node.args[:2]
        ]
        return importer.block_builder.emit(operator(*operands))

    return convert


def _compare(operator: Callable[..., Any], name: str) -> Callable[[fx.Node, Any], Any]:
    def convert(node: fx.Node, importer: Any) -> Any:
        if any(operand.meta["val"].dtype is not torch.bool for operand in node.args):
            return importer.create_convert_map()[name](node)
        operands = [relax.op.astype(importer.env[operand], "int8") for operand in node.args]
        return importer.block_builder.emit(operator(*operands))

    return convert


def _cumulate(operator: Callable[..., Any]) -> Callable[[fx.Node, Any], Any]:
    def convert(node: fx.Node, importer: Any) -> Any:
        data, dtype = importer.env[node.args[0]], dtype_name(node)
        data = data if str(data.ty.dtype.dtype) == dtype else relax.op.astype(data, dtype)
        return importer.block_builder.emit(operator(data, int(node.args[1]), dtype))

    return convert


def _var_mean(node: fx.Node, importer: Any) -> Any:
    data = importer.env[node.args[0]]
    axes = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    mean = relax.op.mean(data, list(axes) if axes else None, bool(node.kwargs.get("keepdim", False)))
    variance = dynamic_axes.variance(node, importer)
    return importer.block_builder.emit(relax.Tuple([variance, importer.block_builder.emit(mean)]))


def _extreme_and_index(reduce: Callable[..., Any], reduce_index: Callable[..., Any]) -> Callable[[fx.Node, Any], Any]:
    def convert(node: fx.Node, importer: Any) -> Any:
        (data, is_boolean), axis = _ordered(node, importer), int(node.args[1])
        keeps = bool(node.args[2]) if len(node.args) > 2 else bool(node.kwargs.get("keepdim", False))
        emit = importer.block_builder.emit
        extreme = reduce(data, axis, keeps)
        extreme = relax.op.astype(extreme, "bool") if is_boolean else extreme
        return emit(relax.Tuple([emit(extreme), emit(reduce_index(data, axis, keeps))]))

    return convert


def _floor_divide(left: Any, right: Any, dtype: str, emit: Callable[[Any], Any]) -> Any:
    """Floor division by the exact remainder, as in Python: 1 // 0.1 is 9. Quotients by powers of two are exact."""
    op, left, right = relax.op, emit(left), right if constant(right) is not None else emit(right)
    known = constant(right)
    if known is not None and (abs(np.frexp(known)[0]) == 0.5).all():  # the mantissa of a power of two
        return op.floor(emit(op.divide(left, right)))
    zero, one, half = (relax.const(number, dtype) for number in (0.0, 1.0, 0.5))
    rest = emit(op.mod(left, right))
    quotient = emit(op.divide(op.subtract(left, rest), right))
    is_beyond = op.less(op.multiply(op.sign(rest), op.sign(right)), zero)
    quotient = emit(op.where(is_beyond, op.subtract(quotient, one), quotient))
    floor = emit(op.floor(quotient))
    nearest = op.where(op.greater(op.subtract(quotient, floor), half), op.add(floor, one), floor)
    return op.where(op.equal(right, zero), op.divide(left, right), emit(nearest))


def _divide_rounded(node: fx.Node, importer: Any) -> Any:
    value = node.meta["val"]
    dtype = dtype_name(node)
    left, right = (
        relax.op.astype(importer.env[value], dtype) if isinstance(value, fx.Node) else relax.const(value, dtype)
        for value in node.args[:2]
    )
    emit = importer.block_builder.emit
    match node.kwargs.get("rounding_mode"):
        case "floor":
            return emit(
                _floor_divide(left, right, dtype, emit)
                if value.dtype.is_floating_point
                else relax.op.floor_divide(left, right)
            )
        case "trunc":
            quotient = relax.op.divide(left, right)
            # Integer division truncates already.
            return emit(relax.op.trunc(quotient) if value.dtype.is_floating_point else quotient)
    return emit(relax.op.divide(left, right))


def _clamp_tensor(node: fx.Node, importer: Any) -> Any:
    dtype = dtype_name(node)
    bounds = [*node.args[1:], None, None][:2]
    bounds = [bounds[0] or node.kwargs.get("min"), bounds[1] or node.kwargs.get("max")]
    value = relax.op.astype(importer.env[node.args[0]], dtype)
    for bound, operator in zip(bounds, (relax.op.maximum, relax.op.minimum), strict=True):
        if bound is not None:
            value = operator(value, relax.op.astype(importer.env[bound], dtype))
    return importer.block_builder.emit(value)


def _clamp(node: fx.Node, importer: Any) -> Any:
    """Clamp to bounds that are numbers. Either may be absent."""
    name, value = node.target.overloadpacket.__name__, node.meta["val"]
    bounds = {"clamp": ("min", "max"), "clamp_min": ("min",), "clamp_max": ("max",)}[name]
    arguments = {**dict(zip(bounds, node.args[1:], strict=False)), **node.kwargs}
    low, high = arguments.get("min"), arguments.get("max")
    if any(isinstance(bound, fx.Node) for bound in (low, high)):
        return importer.create_convert_map()[f"{name}.default"](node)
    data, dtype = importer.env[node.args[0]], dtype_name(node)
    if str(data.ty.dtype.dtype) != dtype:  # integers with floating-point bounds
        data = relax.op.astype(data, dtype)
    if value.dtype.is_floating_point:
        low, high = -math.inf if low is None else low, math.inf if high is None else high
        return importer.block_builder.emit(relax.op.clip(data, min(low, high), high))  # the upper bound wins
    for bound, operator in ((low, relax.op.maximum), (high, relax.op.minimum)):
        if bound is not None:
            limits = torch.iinfo(value.dtype)
            data = operator(data, relax.const(min(max(int(bound), limits.min), limits.max), dtype))
    return importer.block_builder.emit(data)


def _any(node: fx.Node, importer: Any) -> Any:
    data = importer.env[node.args[0]]
    axes = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    keeps = node.args[2] if len(node.args) > 2 else node.kwargs.get("keepdim", False)
    if str(data.ty.dtype.dtype) != "bool":
        data = relax.op.not_equal(data, relax.const(0, str(data.ty.dtype.dtype)))
    axes = [axes] if isinstance(axes, int) else list(axes or []) or None
    # TVM cannot order booleans.
    maximum = importer.block_builder.emit(relax.op.max(relax.op.astype(data, "int8"), axes, bool(keeps)))
    return importer.block_builder.emit(relax.op.astype(maximum, "bool"))


def _hypot(node: fx.Node, importer: Any) -> Any:
    """Scale by the larger operand, so that no square overflows. Infinities and zeros, whose ratio is NaN, are added."""
    dtype = dtype_name(node)
    emit, op = importer.block_builder.emit, relax.op
    left, right = (emit(op.abs(op.astype(importer.env[operand], dtype))) for operand in node.args)
    large, small = emit(op.maximum(left, right)), emit(op.minimum(left, right))
    is_finite = op.logical_and(op.isfinite(left), op.isfinite(right))
    has_ratio = op.logical_and(op.greater(large, relax.const(0, dtype)), is_finite)
    ratio = emit(op.divide(small, op.where(has_ratio, large, relax.const(1, dtype))))
    length = op.multiply(large, op.sqrt(op.add(op.multiply(ratio, ratio), relax.const(1, dtype))))
    return emit(op.where(has_ratio, length, op.add(left, right)))


def _remainder(node: fx.Node, importer: Any) -> Any:
    """The remainder with the divisor's sign; floats use C's exact ``fmod``."""
    dtype = dtype_name(node)
    emit, op = importer.block_builder.emit, relax.op
    left, right = (
        op.astype(importer.env[value], dtype) if isinstance(value, fx.Node) else relax.const(value, dtype)
        for value in node.args
    )
    if not node.meta["val"].dtype.is_floating_point:
        return emit(op.floor_mod(left, right))
    zero, right = relax.const(0, dtype), emit(right)
    rest = emit(op.mod(left, right))
    is_beyond = op.less(op.multiply(op.sign(rest), op.sign(right)), zero)
    return emit(op.where(is_beyond, op.add(rest, right), rest))


def _shift(operator: Callable[..., Any]) -> Callable[[fx.Node, Any], Any]:
    def convert(node: fx.Node, importer: Any) -> Any:
        dtype = dtype_name(node)
        operands = [
            relax.op.astype(importer.env[value], dtype) if isinstance(value, fx.Node) else relax.const(value, dtype)
            for value in node.args
        ]
        return importer.block_builder.emit(operator(*operands))

    return convert


def _convolution(node: fx.Node, importer: Any) -> Any:
    data, weight, bias, strides, padding, dilation, is_transposed, output_padding, groups = node.args
    if not is_transposed or node.meta["val"].dim() != 5:
        return importer.create_convert_map()["convolution.default"](node)
    emit = importer.block_builder.emit
    result = emit(
        relax.op.nn.conv3d_transpose(
            importer.env[data],
            importer.env[weight],
            strides=sizes_per_axis(strides, 3),
            padding=sizes_per_axis(padding, 3) * 2,
            output_padding=sizes_per_axis(output_padding, 3),
            dilation=sizes_per_axis(dilation, 3),
            groups=groups,
        )
    )
    if bias is None:
        return result
    return emit(relax.op.add(result, relax.op.reshape(importer.env[bias], [1, -1, 1, 1, 1])))


def _concatenate(node: fx.Node, importer: Any) -> Any:
    operands, value = node.args[0], node.meta["val"]
    axis = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    dtype = dtype_name(node)
    # PyTorch accepts an empty vector among tensors of any rank: caches start with one.
    operands = [part for part in operands if value.dim() == 1 or tuple(part.meta["val"].shape) != (0,)]
    parts = [importer.env[operand] for operand in operands]
    parts = [part if str(part.ty.dtype.dtype) == dtype else relax.op.astype(part, dtype) for part in parts]
    return importer.block_builder.emit(relax.op.concat(parts, axis=axis) if len(parts) > 1 else parts[0])


CONVERTERS: Mapping[str, Callable[[fx.Node, Any], Any]] = {
    "elu.default": _elu,
    "expm1.default": _unary(stable_math.expm1),
    "log1p.default": _unary(stable_math.log1p),
    "amax.default": _extreme(relax.op.max),
    "amin.default": _extreme(relax.op.min),
    "prod.default": _product,
    "prod.dim_int": _product,
    "native_group_norm.default": _native_group_norm,
    "gt.Tensor": _compare(relax.op.greater, "gt.Tensor"),
    "ge.Tensor": _compare(relax.op.greater_equal, "ge.Tensor"),
    "lt.Tensor": _compare(relax.op.less, "lt.Tensor"),
    "le.Tensor": _compare(relax.op.less_equal, "le.Tensor"),
    "eq.Tensor": _compare(relax.op.equal, "eq.Tensor"),
    "ne.Tensor": _compare(relax.op.not_equal, "ne.Tensor"),
    "cumsum.default": _cumulate(relax.op.cumsum),
    "cumprod.default": _cumulate(relax.op.cumprod),
    "mul.Tensor": _logical(relax.op.logical_and, "mul.Tensor"),
    "minimum.default": _logical(relax.op.logical_and, "minimum.default"),
    "maximum.default": _logical(relax.op.logical_or, "maximum.default"),
    "add.Tensor": _logical(relax.op.logical_or, _add_scaled(relax.op.add, "add.Tensor")),
    "sub.Tensor": _add_scaled(relax.op.subtract, "sub.Tensor"),
    "var_mean.correction": _var_mean,
    "min.dim": _extreme_and_index(relax.op.min, relax.op.argmin),
    "max.dim": _extreme_and_index(relax.op.max, relax.op.argmax),
    "div.Tensor_mode": _divide_rounded,
    "clamp.default": _clamp,
    "clamp_min.default": _clamp,
    "clamp_max.default": _clamp,
    "clamp.Tensor": _clamp_tensor,
    "hypot.default": _hypot,
    **dict.fromkeys(("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor"), _remainder),
    "cat.default": _concatenate,
    "convolution.default": _convolution,
    **dict.fromkeys(("any.default", "any.dim", "any.dims"), _any),
    **{
        f"{name}.{form}": _shift(operator)
        for names, operator in (
            (("__lshift__", "bitwise_left_shift"), relax.op.left_shift),
            (("__rshift__", "bitwise_right_shift"), relax.op.right_shift),
        )
        for name in names
        for form in ("Scalar", "Tensor", "Tensor_Scalar", "Scalar_Tensor")
    },
}
"""Converters by the operator's name."""
