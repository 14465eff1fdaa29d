"""Pictures sampled at places (``grid_sample``) are computed in float32.

TVM 0.27 says that samples of float16 are float16, and lowers those between pixels to float32, which what follows cannot be computed with.
Remove when tests/transform/test_wide_samples.py::test_wheel_still_lowers_samples_to_another_type fails.
"""

from typing import Any

import tvm

from tvmake.ir.expressions import is_call
from tvmake.ir.rewriting import rewritten

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip


def sample_in_float32(module: "tvm.IRModule") -> "tvm.IRModule":
    """The same network, with samples of float16 computed in float32 and rounded."""
    return rewritten(module, _Widening(module))


@mutator
class _Widening(PyExprMutator):
    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        if not is_call(call, "image.grid_sample") or str(op.ty.dtype) != "float16":
            return call
        wide = [self.builder_.emit(relax.op.astype(operand, "float32")) for operand in call.args]
        return relax.op.astype(self.builder_.emit(relax.Call(call.op, wide, call.attrs)), "float16")
