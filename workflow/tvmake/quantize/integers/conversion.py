"""Convert imported networks with ``quantize`` and ``dequantize`` calls to integer arithmetic.

A product of two dequantised operands becomes an integer product, and its int32 sums are dequantised. Operators that only
move values move integers. A value that is dequantised and quantised on the same grid stays an integer. Everything else is
element-wise arithmetic in float32, which kernels compute in registers, on the sums before they are rounded to 8 bits.

Rounding is half to even, as in ONNX (QuantizeLinear) and IEEE 754. The scheme is that of Jacob et al., "Quantization and
Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference" (CVPR 2018), with scales in float32.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import tvm

from tvmake.ir.expressions import constant, extents, fixed_shape, is_call, spreads_over
from tvmake.ir.rewriting import definition, rewrite_calls, rewritten
from tvmake.quantize.integers.affine import SMALL, Affine, affine, along, dequantize
from tvmake.quantize.integers.coverage import COVERAGE, source_coverage
from tvmake.quantize.integers.offsets import join_offsets
from tvmake.quantize.integers.products import CONVOLUTIONS, Centred, centred_integers, convolution, matmul

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

MOVES = frozenset(
    {"reshape", "flatten", "permute_dims", "squeeze", "expand_dims", "strided_slice", "take", "broadcast_to", "nn.max_pool2d"}
)  # fmt: skip
"""Operators whose results are elements of their first argument."""

TURNS = ("permute_dims", "reshape")
"""The ``MOVES`` with which importers change the layout of weights."""

HALVES = ("float16", "bfloat16")
"""Dtypes in which a source may multiply dequantised values."""

SAME_SCALE = 1e-3
"""Largest relative difference between a bias' scale and the scale of the sums that it is added to."""

INT32_MAX = 2**31 - 1

LARGEST_OPERAND = 255
"""Of 8 bits, without a zero point that is subtracted before the multiplication."""

USUAL_SUM = 2**30
"""Assumed bound on sums of unknown weights."""


def has_quantized(module: "tvm.IRModule") -> bool:
    """Whether ``main`` computes with 8-bit integers."""
    calls: list[Any] = []

    def visit(node: Any) -> None:
        if is_call(node, "quantize", "dequantize") or (
            is_call(node, "matmul", *CONVOLUTIONS) and str(node.ty.dtype) == "int32"
        ):
            calls.append(node)

    relax.analysis.post_order_visit(module["main"], visit)
    return bool(calls)


def to_integers(module: "tvm.IRModule", is_source: bool = False) -> "tvm.IRModule":
    """Replace all ``quantize`` and ``dequantize`` calls by integer arithmetic; weights must be constants.

    Operators without an integer form are computed in float32.

    Args:
        is_source: whether the source quantised the network; the result then has the attribute ``COVERAGE``.
    """
    if not has_quantized(module):
        return module
    module = relax.transform.CanonicalizeBindings()(module)
    clean = relax.transform.DeadCodeElimination()
    result = clean(rewritten(module, _IntegerConverter(module)))
    result = result.with_attr(COVERAGE, source_coverage(module, result)) if is_source else clean(join_offsets(result))
    result = clean(rewrite_calls(result, _copy_dequantize))
    return clean(rewritten(result, _QuantizationExpander(result)))


@mutator
class _IntegerConverter(PyExprMutator):
    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        for names, rewrite in (
            (CONVOLUTIONS, self._convolution),
            (("matmul",), self._matmul),
            (("add",), self._add_bias),
            (MOVES, self._move),
            (("concat",), self._concatenate),
            (("quantize",), self._requantize),
            (("clip",), self._clip),
        ):
            if is_call(call, *names) and (replacement := rewrite(call)) is not None:
                return replacement
        return call

    def _definition(self, value: Any) -> Any:
        return definition(self, value)

    def _affine(self, value: Any) -> Affine | None:
        call = self._definition(value)
        parsed = affine(call) if is_call(call, "dequantize") else None
        if parsed is None or constant(integers := self._definition(parsed.integers)) is None:
            return parsed
        return replace(parsed, integers=integers)

    def _small(self, value: Any) -> Affine | None:
        """Parse a product's operand, also behind a cast to half: sums of integers are as accurate as float32."""
        call = self._definition(value)
        operand = self._affine(call.args[0] if is_call(call, "astype") and str(call.ty.dtype) in HALVES else value)
        return operand if operand and operand.dtype in SMALL else None

    def _convolution(self, call: Any) -> Any | None:
        if str(call.ty.dtype) == "int32":
            left, right = (centred_integers(self._definition, argument) for argument in call.args)
            return convolution(self.builder_, call, left, right) if left and right else None
        x, weight = (self._small(argument) for argument in call.args)
        if x is None or weight is None or not x.is_single or not weight.is_known:
            return None
        output = str(call.attrs.kernel_layout).index("O")
        if weight.scale.ndim and weight.axis != output:
            return None
        sums = convolution(
            self.builder_,
            call,
            Centred(x.integers, self._zero(x)),
            Centred(weight.integers, weight.zero, weight.axis),
        )
        axis = (str(call.attrs.out_layout) or str(call.attrs.data_layout)).index("C")
        return self._cast_like(call, self._real(sums, x.scale, weight.scale, axis))

    def _matmul(self, call: Any) -> Any | None:
        if str(call.ty.dtype) == "int32":
            left, right = (centred_integers(self._definition, argument) for argument in call.args)
            return matmul(self.builder_, left, right) if left and right else None
        x, weight = (self._small(argument) for argument in call.args)
        if x is None or weight is None or not x.is_single or not weight.is_known:
            return None
        if weight.scale.ndim and weight.axis != weight.rank - 1:
            return None
        left = Centred(x.integers, self._zero(x))
        sums = matmul(self.builder_, left, Centred(weight.integers, weight.zero, weight.axis))
        return self._cast_like(call, self._real(sums, x.scale, weight.scale, int(call.ty.ndim) - 1))

    def _cast_like(self, call: Any, value: Any | None) -> Any | None:
        """Cast a value to the dtype of the call that it replaces."""
        dtype = str(call.ty.dtype)
        return value if value is None or dtype == "float32" else relax.op.astype(self.builder_.emit(value), dtype)

    def _zero(self, x: Affine) -> Any:
        """Return a zero point as a NumPy array, or as an expression of an int32 scalar."""
        if isinstance(x.zero, np.ndarray) or str(x.zero.ty.dtype) == "int32":
            return x.zero
        return self.builder_.emit(relax.op.astype(x.zero, "int32"))

    def _real(self, sums: Any | None, scale: Any, weight_scale: np.ndarray, axis: int) -> Any | None:
        """Dequantise sums; ``scale`` belongs to the operand that is not the weight."""
        if sums is None:
            return None
        sums = self.builder_.emit(sums)
        if isinstance(scale, np.ndarray):
            return dequantize(sums, np.asarray(scale * weight_scale), np.zeros((), np.int32), axis)
        factors = relax.const(along(weight_scale.astype(np.float32), axis, int(sums.ty.ndim)), "float32")
        both = self.builder_.emit(relax.op.multiply(factors, scale))
        return relax.op.multiply(self.builder_.emit(relax.op.astype(sums, "float32")), both)

    def _add_bias(self, call: Any) -> Any | None:
        """Add an integer bias with the scale of the sums before the scale is applied."""
        for left, right in (call.args, reversed(list(call.args))):
            sums, bias = self._affine(left), self._bias(right)
            if sums is None or bias is None or sums.dtype != "int32" or not sums.is_known:
                continue
            integers, scale = bias
            sums_scale = along(sums.scale, sums.axis, sums.rank)
            # The bias may have fewer axes than the sums; it broadcasts from the last axis.
            if (
                not spreads_over(integers.shape, extents(sums.integers))
                or not _can_broadcast(sums_scale, scale)
                or not np.allclose(scale, sums_scale, rtol=SAME_SCALE, atol=0)
            ):
                continue
            if (total := self._plus(sums.integers, integers)) is not None:
                return dequantize(self.builder_.emit(total), sums.scale, sums.zero, sums.axis)
        return None

    def _bias(self, value: Any) -> tuple[np.ndarray, np.ndarray] | None:
        """Return a constant int32 tensor and its scale in a shape that broadcasts with it."""
        bias = self._affine(value)
        if bias is not None and bias.dtype == "int32" and bias.is_known and not bias.zero.any():
            integers = constant(bias.integers)
            return None if integers is None else (integers, along(bias.scale, bias.axis, bias.rank))
        call = self._definition(value)
        if is_call(call, "reshape", "expand_dims") and (inner := self._bias(call.args[0])) is not None:
            shape = fixed_shape(call)
            integers, scale = inner
            return None if shape is None else (integers.reshape(shape), scale.reshape(shape) if scale.ndim else scale)
        return None

    def _plus(self, sums: Any, bias: np.ndarray) -> Any | None:
        """Add a bias to sums; None if int32 might overflow, as with the biases that quantisers write for nearly dead channels."""
        call, total = self._definition(sums), bias.astype(np.int64)
        if is_call(call, "add", "subtract") and (known := constant(call.args[1])) is not None:
            sums, total = call.args[0], total + (known if is_call(call, "add") else -known.astype(np.int64))
        if np.abs(total).max(initial=0) > INT32_MAX - self._largest_sum(sums):
            return None
        return relax.op.add(sums, relax.const(total.astype(np.int32), "int32"))

    def _largest_sum(self, sums: Any) -> int:
        """An upper bound of the absolute value of a convolution's or matmul's sums; :data:`USUAL_SUM` if its weights are not known."""
        call = self._definition(sums)
        if not is_call(call, "matmul", *CONVOLUTIONS) or (weights := constant(self._definition(call.args[1]))) is None:
            return USUAL_SUM
        output = weights.ndim - 1 if is_call(call, "matmul") else str(call.attrs.kernel_layout).index("O")
        others = tuple(axis for axis in range(weights.ndim) if axis != output)
        return LARGEST_OPERAND * int(np.abs(weights.astype(np.int64)).sum(axis=others).max(initial=0))

    def _move(self, call: Any) -> Any | None:
        source = self._small(call.args[0])
        if source is None or not (source.is_known or source.is_single):
            return None
        if (weight := _move_weight(source, call)) is not None:
            return weight
        axis = 0  # one scale has no axis, and the result may have fewer
        if not source.is_single:
            if not is_call(call, "permute_dims"):
                return None
            axis = _order(call, source.rank).index(source.axis)
        moved = self.builder_.emit(relax.Call(call.op, [source.integers, *call.args[1:]], call.attrs, call.ty_args))
        if source.is_known:
            return dequantize(moved, source.scale, source.zero, axis)
        _, scale, zero = self._definition(call.args[0]).args
        return relax.op.dequantize(moved, scale, zero, axis=0, out_dtype="float32")

    def _concatenate(self, call: Any) -> Any | None:
        parts = self._definition(call.args[0])
        if not isinstance(parts, relax.Tuple):
            return None
        sources = [self._small(field) for field in parts.fields]
        first = sources[0] if sources else None
        if first is None or any(source is None or not source.same_grid(first) for source in sources):
            return None
        fields = [source.integers for source in sources if source is not None]
        joined = relax.op.concat(relax.Tuple(fields), axis=call.attrs.axis)
        return dequantize(self.builder_.emit(joined), first.scale, first.zero, 0)

    def _requantize(self, call: Any) -> Any | None:
        """Remove a dequantisation and quantisation on the same grid, and round weights that the source rounds."""
        source, target = self._small(call.args[0]), affine(call)
        if source and target and source.same_grid(target):
            return source.integers
        values = constant(self._definition(call.args[0]))
        if values is None or target is None or not target.is_known:
            return None
        scale, zero = (along(value, target.axis, target.rank) for value in (target.scale, target.zero))
        bounds = np.iinfo(target.dtype)
        steps = np.rint(values / scale.astype(np.float32)) + zero.astype(np.float32)
        return relax.const(np.clip(steps, bounds.min, bounds.max).astype(target.dtype), target.dtype)

    def _clip(self, call: Any) -> Any | None:
        """Clip integer weights to a range that is narrower than their dtype's."""
        values = constant(self._definition(call.args[0]))
        if values is None or str(values.dtype) not in SMALL:
            return None
        low, high = (int(bound.value) for bound in call.args[1:])
        return relax.const(np.clip(values, low, high).astype(values.dtype), str(values.dtype))


def turn_weights(module: "tvm.IRModule") -> "tvm.IRModule":
    """Move transposes and reshapes of constant weights from after ``dequantize`` to before it, and fold them."""
    return rewrite_calls(module, _move_to_integers)


def _move_to_integers(visitor: Any, op: Any, call: Any) -> Any:
    source = affine(definition(visitor, call.args[0])) if is_call(call, *TURNS) else None
    weight = _move_weight(source, call) if source and source.dtype in SMALL else None
    return call if weight is None else weight


def _move_weight(source: Affine, call: Any) -> Any | None:
    """Transpose constant integers, or reshape them if the axis of their scales is preserved."""
    values, shape = constant(source.integers), fixed_shape(call)
    if values is None or shape is None or not source.is_known or not is_call(call, *TURNS):
        return None
    axis: int | None = source.axis
    if is_call(call, "permute_dims"):
        order = _order(call, source.rank)
        values, axis = np.ascontiguousarray(values.transpose(order)), order.index(source.axis)
    elif source.is_single:
        axis = 0
    else:  # the axis of the scales keeps its size and the number of elements before it
        before, extent = math.prod(values.shape[: source.axis]), values.shape[source.axis]
        axis = next((at for at, size in enumerate(shape) if size == extent and math.prod(shape[:at]) == before), None)
    if axis is None:
        return None
    return dequantize(relax.const(values.reshape(shape), source.dtype), source.scale, source.zero, axis)


def _order(call: Any, rank: int) -> list[int]:
    """Return the order of axes of a ``permute_dims`` call."""
    axes = call.attrs.axes
    return [int(axis) for axis in axes] if axes is not None else list(reversed(range(rank)))


def _can_broadcast(left: np.ndarray, right: np.ndarray) -> bool:
    try:
        np.broadcast_shapes(left.shape, right.shape)
    except ValueError:
        return False
    return True


def _copy_dequantize(visitor: Any, op: Any, call: Any) -> Any:
    """Copy each ``dequantize`` to every user, whose kernel computes it in registers; no float tensor is stored."""
    arguments = [_copy(visitor, argument) for argument in call.args]
    if all(copy.same_as(argument) for copy, argument in zip(arguments, call.args, strict=True)):
        return call
    return relax.Call(call.op, arguments, call.attrs, call.ty_args)


def _copy(visitor: Any, argument: Any) -> Any:
    call = visitor.lookup_binding(argument) if isinstance(argument, relax.Var) else None
    source = affine(call) if is_call(call, "dequantize") else None
    if call is None or source is None or source.dtype not in SMALL or constant(source.integers) is not None:
        return argument
    return visitor.builder_.emit(relax.Call(call.op, list(call.args), call.attrs, call.ty_args))


@mutator
class _QuantizationExpander(PyExprMutator):
    """Expand the remaining calls to arithmetic."""

    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        if (parsed := affine(call)) is None:
            return call
        return self._quantize(call, parsed) if is_call(call, "quantize") else self._dequantize(parsed)

    def _parameter(self, value: Any, parsed: Affine) -> Any:
        """Convert a scale or zero point to float32, in a shape that broadcasts to the tensor."""
        if isinstance(value, np.ndarray):
            return relax.const(along(value.astype("float32"), parsed.axis, parsed.rank), "float32")
        shape = fixed_shape(value)
        real = value
        if str(value.ty.dtype) != "float32":
            real = self.builder_.emit(relax.op.astype(value, "float32"))
        if shape is None or not shape:
            return real
        extents = (
            [1] * parsed.rank if shape == [1] else [-1 if axis == parsed.axis else 1 for axis in range(parsed.rank)]
        )
        return self.builder_.emit(relax.op.reshape(real, extents))

    def _dequantize(self, parsed: Affine) -> Any:
        real = self.builder_.emit(relax.op.astype(parsed.integers, "float32"))
        if not (isinstance(parsed.zero, np.ndarray) and not parsed.zero.any()):
            real = self.builder_.emit(relax.op.subtract(real, self._parameter(parsed.zero, parsed)))
        return relax.op.multiply(real, self._parameter(parsed.scale, parsed))

    def _quantize(self, call: Any, parsed: Affine) -> Any:
        emit, real, dtype = self.builder_.emit, call.args[0], str(call.ty.dtype)
        if isinstance(parsed.scale, np.ndarray):
            inverse = np.asarray(1 / parsed.scale.astype("float64"), "float32")
            steps = emit(relax.op.multiply(real, self._parameter(inverse, parsed)))
        else:
            steps = emit(relax.op.divide(real, self._parameter(parsed.scale, parsed)))
        steps = emit(relax.op.round(steps))
        if not (isinstance(parsed.zero, np.ndarray) and not parsed.zero.any()):
            steps = emit(relax.op.add(steps, self._parameter(parsed.zero, parsed)))
        low, high = float(tvm.tirx.min_value(dtype).value), float(tvm.tirx.max_value(dtype).value)
        below = emit(relax.op.minimum(steps, relax.const(high, "float32")))
        return relax.op.astype(emit(relax.op.maximum(below, relax.const(low, "float32"))), dtype)
