"""Rewrite ``grid_sample`` so that TVM can lower it.

It is computed in float32 and rounded. If coordinates are reflected at pixel centres, a single row or column is repeated.
Repairs: `grid-sample-dtype`, `grid-sample-reflection`.
"""

from typing import Any

import tvm

from tvmake.ir.expressions import extents, is_call
from tvmake.ir.rewriting import rewrite_calls

from tvm import relax  # isort: skip


def reflect_two_rows(module: "tvm.IRModule") -> "tvm.IRModule":
    """Repeat a single row, column or slice of an image or volume if coordinates are reflected at its centre."""
    return rewrite_calls(module, _repeat_single_row)


def sample_in_float32(module: "tvm.IRModule") -> "tvm.IRModule":
    """Compute float16 samples in float32 and round them."""
    return rewrite_calls(module, _sample_in_float32)


def _repeat_single_row(visitor: Any, op: Any, call: Any) -> Any:
    if not is_call(call, "image.grid_sample"):
        return call
    image, grid = call.args
    if call.attrs.padding_mode == "reflection" and call.attrs.align_corners:
        for axis in (axis for axis, letter in enumerate(call.attrs.layout) if letter in "DHW"):
            extent = extents(image)[axis]
            if isinstance(extent, tvm.tirx.IntImm) and int(extent) == 1:
                image = visitor.builder_.emit(relax.op.repeat(image, 2, axis))
    return relax.Call(call.op, [image, grid], call.attrs)


def _sample_in_float32(visitor: Any, op: Any, call: Any) -> Any:
    if not is_call(call, "image.grid_sample") or str(op.ty.dtype) != "float16":
        return call
    wide = [visitor.builder_.emit(relax.op.astype(operand, "float32")) for operand in call.args]
    return relax.op.astype(visitor.builder_.emit(relax.Call(call.op, wide, call.attrs)), "float16")
