"""Write the minimum, maximum or sum of several tensors as element-wise operators on pairs.

TVM's ONNX importer spreads the inputs of Min, Max, Sum and Mean to one shape, copies them into one tensor with an axis more,
and reduces that. Elementwise operators spread by themselves, are fused with what is before and after, and need no axis for
which an Adreno texture has no layout.
"""

from functools import reduce
from typing import Any

import tvm

from tvmake.ir.expressions import is_call, operator_name
from tvmake.ir.rewriting import definition, rewritten

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

PAIRWISE = {
    "min": relax.op.minimum,
    "max": relax.op.maximum,
    "sum": relax.op.add,
    "mean": relax.op.add,
}
"""By reduction, what it does to two."""


def unstack_reductions(module: "tvm.IRModule") -> "tvm.IRModule":
    """The module with reductions over an axis that only stacks tensors replaced; what they stacked may be left unused."""
    return relax.transform.DeadCodeElimination()(rewritten(module, _ReductionUnstacker(module)))


@mutator
class _ReductionUnstacker(PyExprMutator):
    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        name = operator_name(call)
        if name not in PAIRWISE or call.attrs.keepdims or call.attrs.axis is None:
            return call
        stack = definition(self, call.args[0])
        if not is_call(stack, "stack") or list(map(int, call.attrs.axis)) != [int(stack.attrs.axis)]:
            return call
        stacked = definition(self, stack.args[0])
        if not isinstance(stacked, relax.Tuple):
            return call
        fields = [self._unspread(field) for field in stacked.fields]
        if len(fields) < 2:
            return call
        made = reduce(lambda first, second: self.builder_.emit(PAIRWISE[name](first, second)), fields)
        if name != "mean":
            return made
        return relax.op.divide(made, relax.const(len(fields), str(call.ty.dtype)))

    def _unspread(self, field: Any) -> Any:
        spread = definition(self, field)
        return spread.args[0] if is_call(spread, "broadcast_to") else field
