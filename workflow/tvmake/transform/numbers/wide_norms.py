"""Expand norms of float64 to means, differences and multiplications.

Repair: `float64-norms`.
"""

from collections.abc import Sequence
from typing import Any

import tvm

from tvmake.ir.expressions import is_call
from tvmake.ir.rewriting import rewrite_calls

from tvm import relax  # isort: skip

NORMS = ("nn.layer_norm", "nn.group_norm", "nn.instance_norm")


def spell_out_wide_norms(module: "tvm.IRModule") -> "tvm.IRModule":
    """Expand norms of float64."""
    return rewrite_calls(module, _spell_out_norm)


def _spell_out_norm(visitor: Any, op: Any, call: Any) -> Any:
    if not is_call(call, *NORMS) or str(call.args[0].ty.dtype) != "float64":
        return call
    emit, attrs = visitor.builder_.emit, call.attrs
    data, scale, shift = call.args
    shape = list(data.ty.shape)
    axes = sorted(int(axis) % len(shape) for axis in attrs.axes)
    if is_call(call, "nn.layer_norm"):
        weighted, normed = axes, _normalise(visitor, data, axes, attrs.epsilon)
    else:
        channels = int(attrs.channel_axis) % len(shape)
        weighted = [channels]
        if is_call(call, "nn.group_norm"):
            groups = int(attrs.num_groups)
            apart = [*shape[:channels], groups, tvm.tirx.floordiv(shape[channels], groups), *shape[channels + 1 :]]
            within = [channels + 1, *(axis + 1 if axis > channels else axis for axis in axes)]
            split = emit(relax.op.reshape(data, apart))
            normed = emit(relax.op.reshape(_normalise(visitor, split, within, attrs.epsilon), shape))
        else:
            normed = _normalise(visitor, data, axes, attrs.epsilon)
    spread = [extent if axis in weighted else 1 for axis, extent in enumerate(shape)]
    scaled = emit(relax.op.multiply(normed, emit(relax.op.reshape(scale, spread))))
    return relax.op.add(scaled, emit(relax.op.reshape(shift, spread)))


def _normalise(visitor: Any, data: Any, axes: Sequence[int], epsilon: float) -> Any:
    emit = visitor.builder_.emit
    centred = emit(relax.op.subtract(data, emit(relax.op.mean(data, axes, keepdims=True))))
    squares = emit(relax.op.multiply(centred, centred))
    variance = emit(relax.op.mean(squares, axes, keepdims=True))
    deviation = emit(relax.op.sqrt(emit(relax.op.add(variance, relax.const(float(epsilon), "float64")))))
    return emit(relax.op.divide(centred, deviation))
