"""Rewrite norms as norms over one axis of a matrix, which no layout changes.

Between two reshapes they are correct in any layout. Repair: `layout-of-norms`.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import tvm

from tvmake.ir.expressions import operator_name
from tvmake.ir.rewriting import rewrite_calls

from tvm import relax  # isort: skip


def flatten_norms(module: "tvm.IRModule") -> "tvm.IRModule":
    """Flatten the axes of RMS norms, and of layer norms over several axes, if they are trailing and static."""
    return rewrite_calls(module, _flatten_norm)


def _flatten_norm(visitor: Any, op: Any, call: Any) -> Any:
    norm = NORMS.get(operator_name(call))
    if norm is None or not norm.is_affected(len(call.attrs.axes)):
        return call
    data, *weights = call.args
    shape = list(op.args[0].ty.shape) if op.args[0].ty.shape is not None else []
    rank, count = len(shape), len(call.attrs.axes)
    leading, normed = shape[: rank - count], shape[rank - count :]
    if sorted(int(axis) % rank for axis in call.attrs.axes) != list(range(rank - count, rank)):
        return call
    if not all(isinstance(extent, tvm.tirx.IntImm) for extent in normed):
        return call
    length = math.prod(int(extent) for extent in normed)
    flat = [_reshape(visitor, value, [length]) for value in weights]
    matrix = _reshape(visitor, data, [math.prod(leading), length])
    return relax.op.reshape(visitor.builder_.emit(norm.write(call, matrix, flat)), shape)


def _reshape(visitor: Any, value: Any, shape: list[Any]) -> Any:
    return visitor.builder_.emit(relax.op.reshape(value, shape))


def _layer_norm(call: relax.Call, data: Any, weights: list[Any]) -> Any:
    options: dict[str, Any] = {name: call.attrs[name] for name in ("epsilon", "center", "scale")}
    return relax.op.nn.layer_norm(data, *weights, axes=[-1], **options)


def _rms_norm(call: relax.Call, data: Any, weights: list[Any]) -> Any:
    return relax.op.nn.rms_norm(data, *weights, axes=[-1], epsilon=call.attrs.epsilon)


class Norm(NamedTuple):
    """A norm with a defect in ConvertLayout."""

    write: Callable[[relax.Call, Any, list[Any]], Any]
    """Creates the norm over the last axis of a matrix."""
    is_affected: Callable[[int], bool]
    """Whether a norm over this number of axes is affected."""


NORMS = {
    "nn.layer_norm": Norm(_layer_norm, lambda axes: axes > 1),
    "nn.rms_norm": Norm(_rms_norm, lambda axes: True),
}
