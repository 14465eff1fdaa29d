"""Write the minimum, maximum or sum of several tensors as element-wise operators on pairs.

TVM's ONNX importer broadcasts the inputs of Min, Max, Sum and Mean, stacks them into one tensor along a new axis, and reduces that.
Element-wise operators broadcast their operands, are fused with their neighbours, and need no extra axis, for which an Adreno texture has
no layout.
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
"""Element-wise operators by reduction."""


def unstack_reductions(module: "tvm.IRModule") -> "tvm.IRModule":
    """The module without reductions over an axis along which tensors are stacked."""
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
        fields = [self._skip_broadcast(field) for field in stacked.fields]
        if len(fields) < 2:
            return call
        result = reduce(lambda first, second: self.builder_.emit(PAIRWISE[name](first, second)), fields)
        if name != "mean":
            return result
        return relax.op.divide(result, relax.const(len(fields), str(call.ty.dtype)))

    def _skip_broadcast(self, field: Any) -> Any:
        broadcast = definition(self, field)
        return broadcast.args[0] if is_call(broadcast, "broadcast_to") else field
