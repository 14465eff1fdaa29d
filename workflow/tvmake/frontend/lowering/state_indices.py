"""Keep indices that states give inside of the tensors that they select from.

A counter that a network keeps grows past the end of its cache if a sequence is too long. Frameworks report that; a kernel would write
beside its memory. Such an index selects the last element instead.
"""

from collections.abc import Collection
from typing import Any

import numpy as np

from tvmake.ir.expressions import is_call
from tvmake.ir.rewriting import rewritten

import tvm  # isort: skip
from tvm import relax, tirx  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip


def bound_indices(module: "tvm.IRModule", states: Collection[str]) -> "tvm.IRModule":
    """The module with bounds for the indices that depend on these arguments of ``main``."""
    dependent = {str(parameter.name): parameter for parameter in module["main"].params if parameter.name in states}
    return rewritten(module, _IndexBounder(module, set(dependent.values()))) if dependent else module


@mutator
class _IndexBounder(PyExprMutator):
    def __init__(self, module: "tvm.IRModule", dependent: set[Any]):
        super().__init__(module)
        self.dependent = dependent

    def visit_var_binding_(self, binding: Any) -> None:
        """Note variables that depend on a state."""
        if any(variable in self.dependent for variable in relax.analysis.free_vars(binding.value)):
            self.dependent.add(binding.var)
        super().visit_var_binding_(binding)

    def visit_call_(self, op: Any) -> Any:
        """Bound the indices of a call."""
        call = self.visit_expr_post_order(op)
        if not is_call(call, "scatter_elements", "gather_elements", "scatter_nd", "gather_nd", "index_put"):
            return call
        if not any(variable in self.dependent for variable in relax.analysis.free_vars(op.args[1])):
            return call
        data, indices, *others = call.args
        extents = data.ty.shape.values if isinstance(data.ty.shape, relax.ShapeExpr) else ()
        if not extents or not all(isinstance(extent, tirx.IntImm) for extent in extents):
            return call
        sizes = [int(extent) for extent in extents]
        if is_call(call, "index_put"):
            parts = [self._bound(part, size) for part, size in zip(_fields(self, indices), sizes, strict=False)]
            return relax.op.index_put(data, relax.Tuple(parts), *others, accumulate=call.attrs.accumulate)
        if is_call(call, "scatter_elements", "gather_elements"):
            bounded = self._bound(indices, sizes[call.attrs.axis % len(sizes)])
        else:
            first = int(getattr(call.attrs, "batch_dims", 0))
            count = int(indices.ty.shape.values[-1])
            bounded = self._bound(indices, sizes[first : first + count])
        return relax.Call(call.op, [data, bounded, *others], call.attrs)

    def _bound(self, indices: Any, sizes: Any) -> Any:
        dtype = str(indices.ty.dtype)
        if dtype == "bool":
            return indices
        most, zero = relax.const(np.subtract(sizes, 1), dtype), relax.const(0, dtype)
        return self.builder_.emit(relax.op.maximum(self.builder_.emit(relax.op.minimum(indices, most)), zero))


def _fields(visitor: Any, indices: Any) -> list[Any]:
    bound = visitor.lookup_binding(indices) if isinstance(indices, relax.Var) else indices
    return list(bound.fields) if isinstance(bound, relax.Tuple) else [indices]
