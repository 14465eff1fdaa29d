"""Compute 16-bit floating-point remainders in 32 bits.

Repair: `cuda-half-remainders`.
"""

from typing import Any

import tvm

from tvmake.ir.expressions import dtype_name, is_call
from tvmake.ir.rewriting import rewritten
from tvmake.targets.affected import is_affected

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

RELEASES = "<0.28"

REMAINDER = "mod"
"""With the sign of the dividend; ``floor_mod`` is computed by a division."""

HALVES = ("float16", "bfloat16")


@tvm.transform.module_pass(opt_level=0, name="WideRemainders")
class WideRemainders:
    """Compute them in float32."""

    def transform_module(self, module: "tvm.IRModule", _context: Any) -> "tvm.IRModule":
        """The module with such remainders; unchanged if TVM's are correct."""
        return rewritten(module, _RemainderWidener(module)) if is_affected(RELEASES) else module


@mutator
class _RemainderWidener(PyExprMutator):
    """Rewrites the calls."""

    def visit_call_(self, op: Any) -> Any:
        """A 16-bit remainder computed in 32 bits and converted back; any other call unchanged."""
        call = self.visit_expr_post_order(op)
        if not is_call(call, REMAINDER) or dtype_name(op.ty) not in HALVES:
            return call
        wide = [self.builder_.emit(relax.op.astype(argument, "float32")) for argument in call.args]
        return relax.op.astype(self.builder_.emit(relax.op.mod(*wide)), dtype_name(op.ty))
