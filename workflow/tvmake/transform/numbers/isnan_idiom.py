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
    """The same network, with floating-point values that are compared with themselves asked whether they are NaN."""
    return rewritten(module, _IsnanMutator(module))


@mutator
class _IsnanMutator(PyExprMutator):
    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        if not is_call(call, "not_equal", *TRUE_OF_NUMBERS):
            return call
        value, other = (self._named(side) for side in call.args)
        if not isinstance(value, relax.Var) or not value.same_as(other) or "float" not in str(value.ty.dtype):
            return call
        is_nan = relax.op.isnan(value)
        return is_nan if is_call(call, "not_equal") else relax.op.logical_not(self.builder_.emit(is_nan))

    def _named(self, value: Any) -> Any:
        """The variable that was bound first of those that are one value."""
        while isinstance(value, relax.Var) and isinstance(bound := self.lookup_binding(value), relax.Var):
            value = bound
        return value
