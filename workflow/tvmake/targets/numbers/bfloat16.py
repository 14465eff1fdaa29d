"""Round conversions to bfloat16 inside a kernel.

The value's bits are rounded first. Repair: `bfloat16-conversions`.
"""

from functools import cache
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import dtype_name
from tvmake.targets.affected import is_affected

tirx = tvm.tirx

RELEASES = "<0.28"

ROUNDED = "tirx.tvmake_rounded_to_bfloat16"
"""Represents rounding until loops are vectorised: its arithmetic uses the value more than once."""

PURE = 1
"""TVM's ``CallEffectKind`` of operators without side effects."""

DROPPED = 16
"""Bits of float32 that bfloat16 lacks."""


@tirx.transform.prim_func_pass(opt_level=0, name="RoundToBfloat16")
class RoundToBfloat16:
    """Round conversions from float32 to bfloat16."""

    def transform_function(self, func: Any, _module: Any, _context: Any) -> Any:
        """The function with rounded conversions; otherwise unchanged."""
        if not is_affected(RELEASES):
            return func
        body = tvm_ffi.structural_map(func.body, (tirx.Cast, _round_cast))
        return func if body.same_as(func.body) else func.with_body(body)


@cache
def install() -> None:
    """Register the operator and its lowering in this process."""
    if is_affected(RELEASES):
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
