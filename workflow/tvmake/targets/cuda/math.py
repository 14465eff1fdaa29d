"""Correct powers of negative numbers, and float16 functions that CUDA lacks.

Small integer powers are multiplications. Others are computed in double precision, which fast math does not change.
Powers of float16 are computed the same way. Repairs: `cuda-fast-math`, `cuda-half-functions`.
"""

from functools import cache
from typing import Any

import tvm

from tvmake.targets.affected import is_affected
from tvmake.targets.numbers.half_math import widen_rule

PRODUCTS = (1, 2, 3, 4)
"""Powers computed by multiplications."""

LACKING = ("cosh", "fmod", "nearbyint", "sinh")
"""Functions that neither cuda_fp16.h nor TVM defines."""

LEVEL = 100
"""Above the level of TVM's own rules."""

RULE = "cuda.FLowerIntrinsic"


@cache
def install() -> None:
    """Apply the corrections to this process' CUDA kernels."""
    if is_affected():
        for name in LACKING:
            rule = widen_rule(tvm.ir.Op.get(f"tirx.{name}").get_attr(RULE))
            tvm.tirx.register_intrin_lowering(f"tirx.{name}", target="cuda", f=rule, level=LEVEL)
        tvm_rule = tvm.ir.Op.get("tirx.pow").get_attr(RULE)
        tvm.tirx.register_intrin_lowering(
            "tirx.pow",
            target="cuda",
            f=lambda call: tvm_rule(call) if _is_double(call) else lower_power(call),
            level=LEVEL,
        )


def lower_power(call: Any) -> Any:
    """The expression for a power of float32 or float16."""
    base, exponent = call.args
    power = exponent.value if isinstance(exponent, tvm.tirx.Broadcast) else exponent
    if isinstance(power, tvm.tirx.FloatImm) and float(power) in PRODUCTS:
        factor = tvm.tirx.Var("factor", base.ty)
        product = factor
        for _ in range(int(float(power)) - 1):
            product = product * factor
        return tvm.tirx.Let(factor, base, product)
    dtype = str(call.ty.dtype)
    double = "x".join(["float64", *dtype.split("x")[1:]])
    return tvm.tirx.call_pure_extern(double, "pow", base.astype(double), exponent.astype(double)).astype(dtype)


def _is_double(call: Any) -> bool:
    return str(call.ty.dtype).startswith("float64")
