"""The smallest, largest or sum of several tensors, one after the other.

TVM's ONNX importer spreads the inputs of Min, Max, Sum and Mean to one shape, copies them into one tensor with an axis more,
and reduces that. Elementwise operators spread by themselves, are fused with what is before and after, and need no axis for
which an Adreno texture has no layout.
"""

from functools import reduce
from typing import Any

import tvm

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

PAIRWISE = {
    "relax.min": relax.op.minimum,
    "relax.max": relax.op.maximum,
    "relax.sum": relax.op.add,
    "relax.mean": relax.op.add,
}
"""By reduction, what it does to two."""


def unstack_reductions(module: "tvm.IRModule") -> "tvm.IRModule":
    """The module with reductions over an axis that only stacks tensors replaced; what they stacked may be left unused."""
    changed = tvm.IRModule(module.functions, attrs=module.attrs, global_infos=module.global_infos)
    for name, function in module.functions.items():
        if isinstance(function, relax.Function):
            changed[name] = _Unstack(module).visit_expr(function)
    return relax.transform.DeadCodeElimination()(changed)


@mutator
class _Unstack(PyExprMutator):
    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        name = _name(call)
        if name not in PAIRWISE or call.attrs.keepdims or call.attrs.axis is None:
            return call
        stack = self._bound(call.args[0])
        if _name(stack) != "relax.stack" or list(map(int, call.attrs.axis)) != [int(stack.attrs.axis)]:
            return call
        stacked = self._bound(stack.args[0])
        if not isinstance(stacked, relax.Tuple):
            return call
        fields = [self._unspread(field) for field in stacked.fields]
        if len(fields) < 2:
            return call
        made = reduce(lambda first, second: self.builder_.emit(PAIRWISE[name](first, second)), fields)
        if name != "relax.mean":
            return made
        return relax.op.divide(made, relax.const(len(fields), str(call.ty.dtype)))

    def _unspread(self, field: Any) -> Any:
        spread = self._bound(field)
        return spread.args[0] if _name(spread) == "relax.broadcast_to" else field

    def _bound(self, value: Any) -> Any:
        while isinstance(value, tvm.ir.Var):
            found = self.lookup_binding(value)
            if found is None:
                return value
            value = found
        return value


def _name(value: Any) -> str:
    return str(value.op.name) if isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.Op) else ""
