"""Correct powers of negative numbers, and float16 functions and remainders that CUDA lacks.

Small integer powers are multiplications. Others are computed in double precision, which fast math does not change.
Powers of float16 are computed the same way, their remainders in float32.
Repairs: `cuda-fast-math`, `cuda-half-functions`, `cuda-half-remainders`.
"""

from functools import cache
from typing import Any

import tvm

from tvmake.ir.expressions import dtype_name, is_call
from tvmake.ir.rewriting import rewrite_calls
from tvmake.targets.affected import is_affected
from tvmake.targets.numbers.half_math import widen_rule

from tvm import relax  # isort: skip

PRODUCTS = (1, 2, 3, 4)
"""Powers computed by multiplications."""

LACKING = ("cosh", "fmod", "nearbyint", "sinh")
"""Functions that neither cuda_fp16.h nor TVM defines."""

LEVEL = 100
"""Above the level of TVM's own rules."""

RULE = "cuda.FLowerIntrinsic"

REMAINDER = "mod"
"""With the sign of the dividend; ``floor_mod`` is computed by a division."""

HALVES = ("float16", "bfloat16")


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


@tvm.transform.module_pass(opt_level=0, name="WideRemainders")
def widen_remainders(module: "tvm.IRModule", _context: Any) -> "tvm.IRModule":
    """Compute 16-bit remainders in float32."""
    return rewrite_calls(module, _widen_remainder) if is_affected() else module


def _widen_remainder(visitor: Any, op: Any, call: Any) -> Any:
    """A 16-bit remainder computed in 32 bits and converted back; any other call unchanged."""
    if not is_call(call, REMAINDER) or dtype_name(op.ty) not in HALVES:
        return call
    wide = [visitor.builder_.emit(relax.op.astype(argument, "float32")) for argument in call.args]
    return relax.op.astype(visitor.builder_.emit(relax.op.mod(*wide)), dtype_name(op.ty))
