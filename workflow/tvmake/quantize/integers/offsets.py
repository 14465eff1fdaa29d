"""Join the offsets of each channel of an integer product into one float32 vector.

Up to three offsets exist: the input's zero point times the weights' sums in int32, the bias correction of calibration,
and the network's bias. One vector takes a third of the memory and of the additions. Its rounding to float32 is far below
that of the operands to 8 bits. Quantised sources must match their framework exactly, so their sums stay unchanged.
"""

import math
from typing import Any

import numpy as np
import tvm

from tvmake.ir.expressions import constant, extents, is_call, same_extents
from tvmake.ir.rewriting import definition, rewrite_calls
from tvmake.quantize.integers.affine import affine, along, dequantize

from tvm import relax  # isort: skip


def join_offsets(module: "tvm.IRModule") -> "tvm.IRModule":
    """Join the constants that are added to a dequantised product's channels; unused bindings stay."""
    return rewrite_calls(module, _join_offset)


def _join_offset(visitor: Any, op: Any, call: Any) -> Any:
    if is_call(call, "dequantize"):
        return _subtract_after_scale(visitor, call)
    return _join(visitor, call) if is_call(call, "add") else call


def _subtract_after_scale(visitor: Any, call: Any) -> Any:
    """Rewrite ``(sums - constant) * scale`` as ``sums * scale - constant * scale``."""
    sums = affine(call)
    if sums is None or sums.dtype != "int32" or not sums.is_known or sums.zero.any():
        return call
    difference = definition(visitor, sums.integers)
    subtrahend = constant(difference.args[1]) if is_call(difference, "subtract") else None
    if subtrahend is None or not _is_vector(subtrahend, sums.rank):
        return call
    # In float64, so that only the result is rounded.
    offset = -subtrahend * along(sums.scale.astype(np.float64), sums.axis, sums.rank)
    real = visitor.builder_.emit(dequantize(difference.args[0], sums.scale, sums.zero, sums.axis))
    return relax.op.add(real, relax.const(offset.astype(np.float32), "float32"))


def _join(visitor: Any, call: Any) -> Any:
    """Rewrite a product plus two vectors as the product plus their sum."""
    for left, right in (call.args, reversed(list(call.args))):
        second, inner = constant(definition(visitor, right)), definition(visitor, left)
        first = constant(inner.args[1]) if is_call(inner, "add") else None
        if second is None or first is None or str(call.ty.dtype) != "float32":
            continue
        sums = affine(definition(visitor, inner.args[0]))
        if sums is None or sums.dtype != "int32" or not same_extents(extents(call), extents(inner)):
            continue
        both = first.astype(np.float64) + second
        if both.size <= max(first.size, sums.scale.size if isinstance(sums.scale, np.ndarray) else 1):
            return relax.op.add(inner.args[0], relax.const(both.astype(np.float32), "float32"))
    return call


def _is_vector(values: np.ndarray, rank: int) -> bool:
    """Whether an array has at most one axis with more than one element."""
    return values.ndim <= rank and math.prod(values.shape) == max(values.shape, default=1)
