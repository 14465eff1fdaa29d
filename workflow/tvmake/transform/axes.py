"""Replace negative axes.

Repair: `layout-of-axes-from-end`.
"""

from typing import Any

import tvm

from tvmake.ir.expressions import operator_name
from tvmake.ir.rewriting import rewrite_calls

from tvm import relax  # isort: skip


def count_axes_from_front(module: "tvm.IRModule") -> "tvm.IRModule":
    """Replace negative axes of squeezes and permutations, and a stack along a new last axis by a concatenation."""
    return rewrite_calls(module, _normalize_axes)


def _normalize_axes(visitor: Any, op: Any, call: Any) -> Any:
    name = operator_name(call)
    if name == "stack":
        return _stack(visitor, call, op.ty.ndim)
    if name not in ("squeeze", "permute_dims"):
        return call
    axes, rank = (call.attrs.axis if name == "squeeze" else call.attrs.axes), op.args[0].ty.ndim
    if axes is None or rank < 0 or all(axis >= 0 for axis in axes):
        return call
    write = relax.op.squeeze if name == "squeeze" else relax.op.permute_dims
    return write(call.args[0], [int(axis) % rank for axis in axes])


def _stack(visitor: Any, call: relax.Call, rank: int) -> relax.Expr:
    axis, parts = call.attrs.axis, call.args[0]
    if axis is None or axis not in (-1, rank - 1) or not isinstance(parts, relax.Tuple):
        return call
    columns = [visitor.builder_.emit(relax.op.expand_dims(part, rank - 1)) for part in parts.fields]
    return relax.op.concat(columns, rank - 1)
