"""Keep NaN, infinities and divisions by zero as the source computes them.

TVM simplifies comparisons of a value with itself, by which many networks mean ``isnan``: ``x != x`` to false and ``x <= x`` to
true. For floating-point values that is wrong for NaN.

A processor stops a program that divides an integer by zero. PyTorch raises an error, and ONNX does not define the result.
But both branches of a ``where`` are computed, and the branch that is not taken may divide by zero. Here a quotient by zero
is the dividend, and a remainder is zero. The guard compares ``abs(y)`` in floating point, which the simplifier does not
analyse.

A floating-point division by a constant zero becomes a multiplication, and a multiplication by a constant zero a ``where``.
Repairs: `guarded-divisions`, `division-by-constant-zero`, `multiplication-by-zero`.
"""

import math
from typing import Any

import tvm

from tvmake.ir.expressions import constant, extents, is_call, same_extents
from tvmake.ir.rewriting import definition, rewrite_calls

from tvm import relax  # isort: skip

TRUE_OF_NUMBERS = ("equal", "less_equal", "greater_equal")

DIVISIONS = ("divide", "floor_divide", "mod", "floor_mod")


def ask_for_numbers(module: "tvm.IRModule") -> "tvm.IRModule":
    """Replace comparisons of floating-point values with themselves by ``isnan``."""
    return rewrite_calls(module, _to_isnan)


def divide_by_no_zero(module: "tvm.IRModule") -> "tvm.IRModule":
    """Replace zeros in integer divisors by one, and floating-point divisions by a constant zero."""
    return rewrite_calls(module, _guard_division)


def keep_infinities(module: "tvm.IRModule") -> "tvm.IRModule":
    """Replace floating-point multiplications by a single constant zero."""
    return rewrite_calls(module, _keep_infinity)


def _to_isnan(visitor: Any, op: Any, call: Any) -> Any:
    if not is_call(call, "not_equal", *TRUE_OF_NUMBERS):
        return call
    left, right = (_first_alias(visitor, side) for side in call.args)
    if not isinstance(left, relax.Var) or not left.same_as(right) or "float" not in str(left.ty.dtype):
        return call
    is_nan = relax.op.isnan(left)
    return is_nan if is_call(call, "not_equal") else relax.op.logical_not(visitor.builder_.emit(is_nan))


def _first_alias(visitor: Any, value: Any) -> Any:
    """Return the first of the variables that are aliases of a value."""
    while isinstance(value, relax.Var) and isinstance(bound := visitor.lookup_binding(value), relax.Var):
        value = bound
    return value


def _guard_division(visitor: Any, op: Any, call: Any) -> Any:
    if not is_call(call, *DIVISIONS):
        return call
    dividend, divisor = call.args
    known = constant(definition(visitor, divisor))
    if not str(divisor.ty.dtype).startswith(("int", "uint")):
        if known is None or known.ndim or known:
            return call
        factor = math.copysign(math.inf, known) if is_call(call, "divide", "floor_divide") else math.nan
        return relax.op.multiply(dividend, relax.const(factor, str(divisor.ty.dtype)))
    if known is not None and known.all():
        return call
    emit, dtype = visitor.builder_.emit, str(divisor.ty.dtype)
    size = emit(relax.op.abs(emit(relax.op.astype(divisor, "float32"))))
    is_zero = emit(relax.op.less(size, relax.const(0.5, "float32")))
    nonzero = emit(relax.op.where(is_zero, relax.const(1, dtype), divisor))
    return relax.Call(call.op, [dividend, nonzero], call.attrs)


def _keep_infinity(visitor: Any, op: Any, call: Any) -> Any:
    if not is_call(call, "multiply") or "float" not in str(call.ty.dtype):
        return call
    for factor, other in (call.args, reversed(call.args)):
        known = constant(definition(visitor, factor))
        is_kept = same_extents(extents(other), extents(call))
        if known is not None and known.size == 1 and not known.any() and is_kept:
            zero, nan = (relax.const(value, str(call.ty.dtype)) for value in (0.0, math.nan))
            return relax.op.where(visitor.builder_.emit(relax.op.isfinite(other)), zero, nan)
    return call
