"""Round conversions to bfloat16 inside a kernel.

The value's bits are rounded first. Repair: `bfloat16-conversions`.
"""

from functools import cache
from typing import Any

import tvm

from tvmake.ir.expressions import dtype_name
from tvmake.ir.rewriting import map_body
from tvmake.targets.affected import is_affected

tirx = tvm.tirx

ROUNDED = "tirx.tvmake_rounded_to_bfloat16"
"""Represents rounding until loops are vectorised: its arithmetic uses the value more than once."""

PURE = 1
"""TVM's ``CallEffectKind`` of operators without side effects."""

DROPPED = 16
"""Bits of float32 that bfloat16 lacks."""


@tirx.transform.prim_func_pass(opt_level=0, name="RoundToBfloat16")
def round_to_bfloat16(func: Any, _module: Any, _context: Any) -> Any:
    """Round conversions from float32 to bfloat16."""
    if not is_affected():
        return func
    return map_body(func, (tirx.Cast, _round_cast))


@cache
def install() -> None:
    """Register the operator and its lowering in this process."""
    if is_affected():
        tvm.ir.register_op_attr(ROUNDED, "TCallEffectKind", PURE)
        tvm.ir.register_op_attr(ROUNDED, "TVectorizable", True)
        tvm.tirx.register_intrin_lowering(ROUNDED, target="default", f=_round_bits)


def _round_cast(cast: Any) -> Any:
    if dtype_name(cast.ty) != "bfloat16" or dtype_name(cast.value.ty) != "float32":
        return cast
    install()
    return tirx.Cast("bfloat16", tirx.call_intrin("float32", ROUNDED, cast.value))


def _round_bits(call: Any) -> Any:
    """Round to the nearest value with half of the bits, ties to even; NaN stays unchanged."""
    dtype = dtype_name(call.ty)
    integers = dtype.replace("float", "uint")
    value, bits = tirx.Var("value", dtype), tirx.Var("bits", integers)
    shift, one, half = (tirx.const(number, integers) for number in (DROPPED, 1, (1 << (DROPPED - 1)) - 1))
    nearest = ((bits + ((bits >> shift) & one) + half) >> shift) << shift
    rounded = tirx.Select(tirx.isnan(value), value, tirx.reinterpret(dtype, nearest))
    return tirx.Let(value, call.args[0], tirx.Let(bits, tirx.reinterpret(integers, value), rounded))
