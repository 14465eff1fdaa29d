"""Conversions to bfloat16 inside of a kernel, which round.

The value is rounded by its bits first. Repair: `bfloat16-conversions`.
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
"""An operator that stands for it until loops are vectors: its arithmetic names the number more than once."""

PURE = 1
"""TVM's ``CallEffectKind`` of operators that only compute."""

DROPPED = 16
"""Bits that bfloat16 has not."""


@tirx.transform.prim_func_pass(opt_level=0, name="RoundToBfloat16")
class RoundToBfloat16:
    """Round what is converted from float32 to bfloat16."""

    def transform_function(self, func: Any, _module: Any, _context: Any) -> Any:
        """The function with such numbers rounded; one without any as it is."""
        if not is_affected(RELEASES):
            return func
        body = tvm_ffi.structural_map(func.body, (tirx.Cast, _rounded))
        return func if body.same_as(func.body) else func.with_body(body)


@cache
def install() -> None:
    """Have the operator known in this process, and what it is."""
    if is_affected(RELEASES):
        tvm.ir.register_op_attr(ROUNDED, "TCallEffectKind", PURE)
        tvm.ir.register_op_attr(ROUNDED, "TVectorizable", True)
        tvm.tirx.register_intrin_lowering(ROUNDED, target="default", f=_by_its_bits)


def _rounded(cast: Any) -> Any:
    if dtype_name(cast.ty) != "bfloat16" or dtype_name(cast.value.ty) != "float32":
        return cast
    install()
    return tirx.Cast("bfloat16", tirx.call_intrin("float32", ROUNDED, cast.value))


def _by_its_bits(call: Any) -> Any:
    """To the nearest number with half of the bits, the even one of two; NaN as it is."""
    dtype = dtype_name(call.ty)
    integers = dtype.replace("float", "uint")
    value, bits = tirx.Var("value", dtype), tirx.Var("bits", integers)
    shift, one, half = (tirx.const(number, integers) for number in (DROPPED, 1, (1 << (DROPPED - 1)) - 1))
    nearest = ((bits + ((bits >> shift) & one) + half) >> shift) << shift
    chosen = tirx.Select(tirx.isnan(value), value, tirx.reinterpret(dtype, nearest))
    return tirx.Let(value, call.args[0], tirx.Let(bits, tirx.reinterpret(integers, value), chosen))
