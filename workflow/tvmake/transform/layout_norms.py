"""Layer norms over several axes as such over one, which no layout changes.

TVM 0.27's ConvertLayout gives a layer norm the axes of the new layout and leaves its scale and shift in the old one, so that the
result is wrong. Over one axis, between two reshapes, it is right. Remove when
tests/transform/test_layout_norms.py::test_tvm_still_leaves_the_weights_of_norms_behind fails.
"""

import math
from typing import Any

import tvm

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip


def flatten_norms(module: "tvm.IRModule") -> "tvm.IRModule":
    """Write every layer norm over several trailing axes of fixed extents as one over a single axis."""
    writer = _Flatten(module)
    for variable, function in module.functions_items():
        if isinstance(function, relax.Function):
            writer.builder_.update_func(variable, writer.visit_expr(function))
    return writer.builder_.get()


@mutator
class _Flatten(PyExprMutator):
    def visit_call_(self, op: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(op)
        if getattr(call.op, "name", "") != "relax.nn.layer_norm" or len(call.attrs.axes) == 1:
            return call
        data, scale, shift = call.args
        shape = list(data.ty.shape) if data.ty.shape is not None else []
        rank, count = len(shape), len(call.attrs.axes)
        trailing = list(range(rank - count, rank))
        if sorted(int(axis) % rank for axis in call.attrs.axes) != trailing:
            return call
        if not all(isinstance(extent, tvm.tirx.IntImm) for extent in shape[rank - count :]):
            return call
        length = math.prod(int(extent) for extent in shape[rank - count :])
        flat = [self._reshaped(value, [length]) for value in (scale, shift)]
        options: dict[str, Any] = {name: call.attrs[name] for name in ("epsilon", "center", "scale")}
        data = self._reshaped(data, [*shape[: rank - count], length])
        normed = self.builder_.emit(relax.op.nn.layer_norm(data, *flat, axes=[-1], **options))
        return relax.op.reshape(normed, shape)

    def _reshaped(self, value: Any, shape: list[Any]) -> Any:
        return self.builder_.emit(relax.op.reshape(value, shape))
