"""Networks between ``quantize`` and ``dequantize`` calls, as importers bring them, computed in integers.

A product of two dequantised operands becomes one of the integers, whose int32 sums are dequantised in turn; what only moves values
moves integers; and a value that goes from integers to float and back on the same grid stays where it is. Everything else is
element-wise arithmetic in float32, which kernels do in registers, on the sums before they are rounded to 8 bits.

Rounding is half to even, as ONNX (QuantizeLinear) and IEEE 754 have it. The scheme is that of Jacob et al., "Quantization and
Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference" (CVPR 2018), with scales in float32.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import tvm

from tvmake.ir.expressions import constant, extents, fixed_shape, is_call, spreads_over
from tvmake.ir.rewriting import definition, rewritten
from tvmake.quantize.integers.affine import SMALL, Affine, affine, along, dequantize
from tvmake.quantize.integers.coverage import COVERAGE, source_coverage
from tvmake.quantize.integers.offsets import join_offsets
from tvmake.quantize.integers.products import CONVOLUTIONS, Centred, centred_integers, convolution, matmul

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

MOVES = frozenset(
    {
        "reshape",
        "flatten",
        "permute_dims",
        "squeeze",
        "expand_dims",
        "strided_slice",
        "take",
        "broadcast_to",
        "nn.max_pool2d",
    }
)
"""Operators whose results are elements of their first argument."""

TURNS = ("permute_dims", "reshape")
"""Those of them by which importers bring weights into a layout."""

HALVES = ("float16", "bfloat16")
"""Element types that a source may multiply dequantised numbers in."""

SAME_SCALE = 1e-3
"""By how much, as a share, a bias' scale may differ from that of the sums that it is added to."""


def has_quantized(module: "tvm.IRModule") -> bool:
    """Whether ``main`` holds 8-bit integers that are computed with."""
    found: list[Any] = []

    def visit(node: Any) -> None:
        if is_call(node, "quantize", "dequantize") or (
            is_call(node, "matmul", *CONVOLUTIONS) and str(node.ty.dtype) == "int32"
        ):
            found.append(node)

    relax.analysis.post_order_visit(module["main"], visit)
    return bool(found)


def to_integers(module: "tvm.IRModule", is_source: bool = False) -> "tvm.IRModule":
    """Compute in integers what stands between ``quantize`` and ``dequantize``; weights have to be constants.

    No call of either is left: what cannot be computed in integers is computed in float32, as the source says.

    Args:
        is_source: whether the source quantised it; the module has its ``COVERAGE`` then.
    """
    if not has_quantized(module):
        return module
    module = relax.transform.CanonicalizeBindings()(module)
    clean = relax.transform.DeadCodeElimination()
    made = clean(rewritten(module, _IntegerConverter(module)))
    made = made.with_attr(COVERAGE, source_coverage(module, made)) if is_source else clean(join_offsets(made))
    for step in (_DequantizeCopier, _QuantizationExpander):
        made = clean(rewritten(made, step(made)))
    return made


@mutator
class _IntegerConverter(PyExprMutator):
    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        for names, rewrite in (
            (CONVOLUTIONS, self._convolution),
            (("matmul",), self._matmul),
            (("add",), self._biased),
            (MOVES, self._moved),
            (("concat",), self._concatenated),
            (("quantize",), self._requantized),
            (("clip",), self._bounded),
        ):
            if is_call(call, *names) and (rewritten := rewrite(call)) is not None:
                return rewritten
        return call

    def _made(self, value: Any) -> Any:
        """What a variable is bound to."""
        return definition(self, value)

    def _affine(self, value: Any) -> Affine | None:
        made = self._made(value)
        found = affine(made) if is_call(made, "dequantize") else None
        if found is None or constant(integers := self._made(found.integers)) is None:
            return found
        return replace(found, integers=integers)

    def _small(self, value: Any) -> Affine | None:
        """A product's operand, seen through a cast to half: sums of integers are as exact as float32 is."""
        made = self._made(value)
        found = self._affine(made.args[0] if is_call(made, "astype") and str(made.ty.dtype) in HALVES else value)
        return found if found and found.dtype in SMALL else None

    def _convolution(self, call: Any) -> Any | None:
        if str(call.ty.dtype) == "int32":
            left, right = (centred_integers(self._made, argument) for argument in call.args)
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
        return self._as(call, self._real(sums, x.scale, weight.scale, axis))

    def _matmul(self, call: Any) -> Any | None:
        if str(call.ty.dtype) == "int32":
            left, right = (centred_integers(self._made, argument) for argument in call.args)
            return matmul(self.builder_, left, right) if left and right else None
        x, weight = (self._small(argument) for argument in call.args)
        if x is None or weight is None or not x.is_single or not weight.is_known:
            return None
        if weight.scale.ndim and weight.axis != weight.rank - 1:
            return None
        left = Centred(x.integers, self._zero(x))
        sums = matmul(self.builder_, left, Centred(weight.integers, weight.zero, weight.axis))
        return self._as(call, self._real(sums, x.scale, weight.scale, int(call.ty.ndim) - 1))

    def _as(self, call: Any, value: Any | None) -> Any | None:
        """A value in the element type of the call that it stands for."""
        dtype = str(call.ty.dtype)
        return value if value is None or dtype == "float32" else relax.op.astype(self.builder_.emit(value), dtype)

    def _zero(self, x: Affine) -> Any:
        """A zero point: numpy's array, or an expression for an int32 scalar."""
        if isinstance(x.zero, np.ndarray) or str(x.zero.ty.dtype) == "int32":
            return x.zero
        return self.builder_.emit(relax.op.astype(x.zero, "int32"))

    def _real(self, sums: Any | None, scale: Any, of_weight: np.ndarray, axis: int) -> Any | None:
        """Sums as real numbers; ``scale`` is that of the other operand."""
        if sums is None:
            return None
        sums = self.builder_.emit(sums)
        if isinstance(scale, np.ndarray):
            return dequantize(sums, np.asarray(scale * of_weight), np.zeros((), np.int32), axis)
        factors = relax.const(along(of_weight.astype(np.float32), axis, int(sums.ty.ndim)), "float32")
        both = self.builder_.emit(relax.op.multiply(factors, scale))
        return relax.op.multiply(self.builder_.emit(relax.op.astype(sums, "float32")), both)

    def _biased(self, call: Any) -> Any | None:
        """Sums plus an integer bias of their scale, added before the scale is applied."""
        for value, other in (call.args, reversed(list(call.args))):
            sums, bias = self._affine(value), self._bias(other)
            if sums is None or bias is None or sums.dtype != "int32" or not sums.is_known:
                continue
            integers, scale = bias
            sums_scale = along(sums.scale, sums.axis, sums.rank)
            # The bias may have fewer axes than the sums, which spread from the last one on.
            if (
                not spreads_over(integers.shape, extents(sums.integers))
                or not _spreads(sums_scale, scale)
                or not np.allclose(scale, sums_scale, rtol=SAME_SCALE, atol=0)
            ):
                continue
            total = self._plus(sums.integers, integers)
            return dequantize(self.builder_.emit(total), sums.scale, sums.zero, sums.axis)
        return None

    def _bias(self, value: Any) -> tuple[np.ndarray, np.ndarray] | None:
        """A constant int32 tensor and its scale in a shape that goes with it."""
        found = self._affine(value)
        if found is not None and found.dtype == "int32" and found.is_known and not found.zero.any():
            integers = constant(found.integers)
            return None if integers is None else (integers, along(found.scale, found.axis, found.rank))
        made = self._made(value)
        if is_call(made, "reshape", "expand_dims") and (inner := self._bias(made.args[0])) is not None:
            shape = fixed_shape(made)
            integers, scale = inner
            return None if shape is None else (integers.reshape(shape), scale.reshape(shape) if scale.ndim else scale)
        return None

    def _plus(self, sums: Any, bias: np.ndarray) -> Any:
        made = self._made(sums)
        if is_call(made, "add", "subtract") and (known := constant(made.args[1])) is not None:
            total = known + bias if is_call(made, "add") else bias - known
            return relax.op.add(made.args[0], relax.const(total.astype(np.int32), "int32"))
        return relax.op.add(sums, relax.const(bias.astype(np.int32), "int32"))

    def _moved(self, call: Any) -> Any | None:
        source = self._small(call.args[0])
        if source is None or not (source.is_known or source.is_single):
            return None
        if (turned := _turned(source, call)) is not None:
            return turned
        axis = 0  # one scale has no axis, and the result may have fewer
        if not source.is_single:
            if not is_call(call, "permute_dims"):
                return None
            axis = _order(call, source.rank).index(source.axis)
        moved = self.builder_.emit(relax.Call(call.op, [source.integers, *call.args[1:]], call.attrs, call.ty_args))
        if source.is_known:
            return dequantize(moved, source.scale, source.zero, axis)
        _, scale, zero = self._made(call.args[0]).args
        return relax.op.dequantize(moved, scale, zero, axis=0, out_dtype="float32")

    def _concatenated(self, call: Any) -> Any | None:
        parts = self._made(call.args[0])
        if not isinstance(parts, relax.Tuple):
            return None
        sources = [self._small(field) for field in parts.fields]
        first = sources[0] if sources else None
        if first is None or any(source is None or not source.same_grid(first) for source in sources):
            return None
        fields = [source.integers for source in sources if source is not None]
        joined = relax.op.concat(relax.Tuple(fields), axis=call.attrs.axis)
        return dequantize(self.builder_.emit(joined), first.scale, first.zero, 0)

    def _requantized(self, call: Any) -> Any | None:
        """Integers that went to float and come back on the grid that they left, and weights that the source rounds itself."""
        source, wanted = self._small(call.args[0]), affine(call)
        if source and wanted and source.same_grid(wanted):
            return source.integers
        values = constant(self._made(call.args[0]))
        if values is None or wanted is None or not wanted.is_known:
            return None
        scale, zero = (along(value, wanted.axis, wanted.rank) for value in (wanted.scale, wanted.zero))
        bounds = np.iinfo(wanted.dtype)
        steps = np.rint(values / scale.astype(np.float32)) + zero.astype(np.float32)
        return relax.const(np.clip(steps, bounds.min, bounds.max).astype(wanted.dtype), wanted.dtype)

    def _bounded(self, call: Any) -> Any | None:
        """Integers of weights within a narrower range than their type's."""
        values = constant(self._made(call.args[0]))
        if values is None or str(values.dtype) not in SMALL:
            return None
        low, high = (int(bound.value) for bound in call.args[1:])
        return relax.const(np.clip(values, low, high).astype(values.dtype), str(values.dtype))


def turn_weights(module: "tvm.IRModule") -> "tvm.IRModule":
    """Constants whose axes are turned or reshaped after ``dequantize`` as constants that are so before it."""
    return rewritten(module, _WeightConverter(module))


@mutator
class _WeightConverter(PyExprMutator):
    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        found = affine(definition(self, call.args[0])) if is_call(call, *TURNS) else None
        turned = _turned(found, call) if found and found.dtype in SMALL else None
        return call if turned is None else turned


def _turned(source: Affine, call: Any) -> Any | None:
    """Constant integers with their axes in another order, or in a shape that keeps the axis of their scales."""
    values, shape = constant(source.integers), fixed_shape(call)
    if values is None or shape is None or not source.is_known or not is_call(call, *TURNS):
        return None
    axis: int | None = source.axis
    if is_call(call, "permute_dims"):
        order = _order(call, source.rank)
        values, axis = np.ascontiguousarray(values.transpose(order)), order.index(source.axis)
    elif source.is_single:
        axis = 0
    else:  # as many elements are before it as there were
        before, extent = math.prod(values.shape[: source.axis]), values.shape[source.axis]
        axis = next((at for at, size in enumerate(shape) if size == extent and math.prod(shape[:at]) == before), None)
    if axis is None:
        return None
    return dequantize(relax.const(values.reshape(shape), source.dtype), source.scale, source.zero, axis)


def _order(call: Any, rank: int) -> list[int]:
    """Of a call that turns axes."""
    axes = call.attrs.axes
    return [int(place) for place in axes] if axes is not None else list(reversed(range(rank)))


def _spreads(one: np.ndarray, other: np.ndarray) -> bool:
    try:
        np.broadcast_shapes(one.shape, other.shape)
    except ValueError:
        return False
    return True


@mutator
class _DequantizeCopier(PyExprMutator):
    """Gives every user of a dequantised value a call of its own, which its kernel does in registers: none is kept in float."""

    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        arguments = [self._own(argument) for argument in call.args]
        if all(one.same_as(other) for one, other in zip(arguments, call.args, strict=True)):
            return call
        return relax.Call(call.op, arguments, call.attrs, call.ty_args)

    def _own(self, argument: Any) -> Any:
        made = self.lookup_binding(argument) if isinstance(argument, relax.Var) else None
        found = affine(made) if is_call(made, "dequantize") else None
        if made is None or found is None or found.dtype not in SMALL or constant(found.integers) is not None:
            return argument
        return self.builder_.emit(relax.Call(made.op, list(made.args), made.attrs, made.ty_args))


@mutator
class _QuantizationExpander(PyExprMutator):
    """Writes the calls that are left as arithmetic."""

    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        if (found := affine(call)) is None:
            return call
        return self._quantize(call, found) if is_call(call, "quantize") else self._dequantize(found)

    def _parameter(self, value: Any, found: Affine) -> Any:
        """A scale or zero point as float32, in a shape that spreads over the tensor."""
        if isinstance(value, np.ndarray):
            return relax.const(along(value.astype("float32"), found.axis, found.rank), "float32")
        shape = fixed_shape(value)
        real = value
        if str(value.ty.dtype) != "float32":
            real = self.builder_.emit(relax.op.astype(value, "float32"))
        if shape is None or not shape:
            return real
        spread = [1] * found.rank if shape == [1] else [-1 if axis == found.axis else 1 for axis in range(found.rank)]
        return self.builder_.emit(relax.op.reshape(real, spread))

    def _dequantize(self, found: Affine) -> Any:
        real = self.builder_.emit(relax.op.astype(found.integers, "float32"))
        if not (isinstance(found.zero, np.ndarray) and not found.zero.any()):
            real = self.builder_.emit(relax.op.subtract(real, self._parameter(found.zero, found)))
        return relax.op.multiply(real, self._parameter(found.scale, found))

    def _quantize(self, call: Any, found: Affine) -> Any:
        emit, real, dtype = self.builder_.emit, call.args[0], str(call.ty.dtype)
        if isinstance(found.scale, np.ndarray):
            inverse = np.asarray(1 / found.scale.astype("float64"), "float32")
            steps = emit(relax.op.multiply(real, self._parameter(inverse, found)))
        else:
            steps = emit(relax.op.divide(real, self._parameter(found.scale, found)))
        steps = emit(relax.op.round(steps))
        if not (isinstance(found.zero, np.ndarray) and not found.zero.any()):
            steps = emit(relax.op.add(steps, self._parameter(found.zero, found)))
        low, high = float(tvm.tirx.min_value(dtype).value), float(tvm.tirx.max_value(dtype).value)
        below = emit(relax.op.minimum(steps, relax.const(high, "float32")))
        return relax.op.astype(emit(relax.op.maximum(below, relax.const(low, "float32"))), dtype)
