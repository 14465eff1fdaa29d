"""Compute 16-bit floating-point remainders in 32 bits.

Repair: `cuda-half-remainders`.
"""

from typing import Any

import tvm

from tvmake.ir.expressions import dtype_name, is_call
from tvmake.ir.rewriting import rewrite_calls
from tvmake.targets.affected import is_affected

from tvm import relax  # isort: skip

REMAINDER = "mod"
"""With the sign of the dividend; ``floor_mod`` is computed by a division."""

HALVES = ("float16", "bfloat16")


@tvm.transform.module_pass(opt_level=0, name="WideRemainders")
def widen_remainders(module: "tvm.IRModule", _context: Any) -> "tvm.IRModule":
    """Compute them in float32."""
    return rewrite_calls(module, _widen_remainder) if is_affected() else module


def _widen_remainder(visitor: Any, op: Any, call: Any) -> Any:
    """A 16-bit remainder computed in 32 bits and converted back; any other call unchanged."""
    if not is_call(call, REMAINDER) or dtype_name(op.ty) not in HALVES:
        return call
    wide = [visitor.builder_.emit(relax.op.astype(argument, "float32")) for argument in call.args]
    return relax.op.astype(visitor.builder_.emit(relax.op.mod(*wide)), dtype_name(op.ty))
