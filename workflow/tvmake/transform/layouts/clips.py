"""Replace clips by minimum and maximum, which work in any layout.

They are also replaced during ToMixedPrecision and restored afterwards, because a clip's bounds are part of its kernel,
whereas constants are arguments. Repairs: `layout-of-clips`, `mixed-precision-arguments`.
"""

from typing import Any

import tvm

from tvmake.ir.expressions import is_call
from tvmake.ir.rewriting import definition, rewrite_calls

from tvm import relax  # isort: skip


def _split_clip(visitor: Any, op: Any, call: Any) -> Any:
    if not is_call(call, "clip"):
        return call
    value, *bounds = call.args
    dtype = str(value.ty.dtype) if isinstance(value.ty, relax.TensorType) else ""
    low, high = (_number(bound) for bound in bounds)
    if not dtype.startswith(("float", "bfloat")) or low is None or high is None:
        return call
    # In the order of clip, so that crossed bounds give the lower one, and NaN stays NaN.
    below = visitor.builder_.emit(relax.op.minimum(value, relax.const(high, dtype)))
    return relax.op.maximum(below, relax.const(low, dtype))


def _join_clip(visitor: Any, op: Any, call: Any) -> Any:
    if not is_call(call, "maximum") or (low := _scalar(call.args[1])) is None:
        return call
    below = definition(visitor, call.args[0])
    if not is_call(below, "minimum") or (high := _scalar(below.args[1])) is None:
        return call
    return relax.op.clip(below.args[0], low, high)


def split_clips(module: "tvm.IRModule") -> "tvm.IRModule":
    """Replace floating-point clips with constant bounds by a minimum and a maximum."""
    return rewrite_calls(module, _split_clip)


def join_clips(module: "tvm.IRModule") -> "tvm.IRModule":
    """Replace a minimum and a maximum with constants by a clip."""
    return tvm.relax.transform.DeadCodeElimination()(rewrite_calls(module, _join_clip))


def _scalar(value: Any) -> float | None:
    """Return the value of a scalar constant; None for other expressions."""
    if not (isinstance(value, tvm.ir.GenericConst) and isinstance(value.ty, relax.TensorType)):
        return None
    is_scalar = value.ty.ndim == 0 and str(value.ty.dtype) in ("float16", "float32")
    return float(value.value.numpy()) if is_scalar else None


def _number(bound: Any) -> float | None:
    value = getattr(bound, "value", None)
    value = getattr(value, "value", value)
    return float(value) if isinstance(value, int | float) else None
