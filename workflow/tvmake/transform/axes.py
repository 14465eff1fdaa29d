"""Replace negative axes.

Repair: `layout-of-axes-from-end`.
"""

import tvm

from tvmake.ir.expressions import operator_name
from tvmake.ir.rewriting import rewritten

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip


def count_axes_from_front(module: "tvm.IRModule") -> "tvm.IRModule":
    """Replace negative axes of squeezes and permutations, and a stack along a new last axis by a concatenation."""
    return rewritten(module, _AxisNormalizer(module))


@mutator
class _AxisNormalizer(PyExprMutator):
    def visit_call_(self, op: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(op)
        name = operator_name(call)
        if name == "stack":
            return self._stack(call, op.ty.ndim)
        if name not in ("squeeze", "permute_dims"):
            return call
        axes, rank = (call.attrs.axis if name == "squeeze" else call.attrs.axes), op.args[0].ty.ndim
        if axes is None or rank < 0 or all(axis >= 0 for axis in axes):
            return call
        write = relax.op.squeeze if name == "squeeze" else relax.op.permute_dims
        return write(call.args[0], [int(axis) % rank for axis in axes])

    def _stack(self, call: relax.Call, rank: int) -> relax.Expr:
        axis, parts = call.attrs.axis, call.args[0]
        if axis is None or axis not in (-1, rank - 1) or not isinstance(parts, relax.Tuple):
            return call
        columns = [self.builder_.emit(relax.op.expand_dims(part, rank - 1)) for part in parts.fields]
        return relax.op.concat(columns, rank - 1)
