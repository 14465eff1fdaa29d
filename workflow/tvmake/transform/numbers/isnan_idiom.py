"""Replace comparisons of a value with itself by ``isnan``, which many networks mean by them.

TVM simplifies them: ``x != x`` to false and ``x <= x`` to true. For floating-point values that is wrong for NaN.
"""

from typing import Any

import tvm

from tvmake.ir.expressions import is_call
from tvmake.ir.rewriting import rewritten

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

TRUE_OF_NUMBERS = ("equal", "less_equal", "greater_equal")


def ask_for_numbers(module: "tvm.IRModule") -> "tvm.IRModule":
    """Replace comparisons of floating-point values with themselves by ``isnan``."""
    return rewritten(module, _IsnanMutator(module))


@mutator
class _IsnanMutator(PyExprMutator):
    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        if not is_call(call, "not_equal", *TRUE_OF_NUMBERS):
            return call
        left, right = (self._original(side) for side in call.args)
        if not isinstance(left, relax.Var) or not left.same_as(right) or "float" not in str(left.ty.dtype):
            return call
        is_nan = relax.op.isnan(left)
        return is_nan if is_call(call, "not_equal") else relax.op.logical_not(self.builder_.emit(is_nan))

    def _original(self, value: Any) -> Any:
        """Return the first of the variables that are aliases of a value."""
        while isinstance(value, relax.Var) and isinstance(bound := self.lookup_binding(value), relax.Var):
            value = bound
        return value
