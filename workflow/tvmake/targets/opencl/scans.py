"""Compute running sums by reductions, for OpenCL.

Each element sums the elements before it: more work, but correct on every device. Repair: `opencl-scans`.
"""

from typing import Any

import tvm

from tvmake.ir.expressions import dtype_name, is_call
from tvmake.ir.rewriting import rewrite_calls
from tvmake.targets.affected import is_affected

from tvm import relax, te  # isort: skip

SUM = "cumsum"


@tvm.transform.module_pass(opt_level=0, name="SumsAsReductions")
def compute_sums_as_reductions(module: "tvm.IRModule", _context: Any) -> "tvm.IRModule":
    """Replace ``relax.cumsum``."""
    if not is_affected():
        return module
    return rewrite_calls(module, _sum_by_reduction)


def _sum_by_reduction(visitor: Any, op: Any, call: Any) -> Any:
    """A kernel call instead of a running sum; any other call unchanged."""
    if not is_call(call, SUM):
        return call
    attributes = call.attrs
    data, axis = call.args[0], attributes.axis
    if axis is None:
        data, axis = visitor.builder_.emit(relax.op.flatten(data)), 0
    is_exclusive = bool(attributes.exclusive) if attributes.exclusive is not None else False
    position = int(axis) % len(call.ty.shape)
    return visitor.builder_.call_te(
        _running_sum, data, axis=position, dtype=dtype_name(call.ty), is_exclusive=is_exclusive,
        primfunc_name_hint="running_sum",
    )  # fmt: skip


def _running_sum(data: "te.Tensor", axis: int, dtype: str, is_exclusive: bool) -> "te.Tensor":
    before = te.reduce_axis((0, data.shape[axis]), name="before")

    def value(*place: Any) -> Any:
        element = data[(*place[:axis], before, *place[axis + 1 :])].astype(dtype)
        counts = before < place[axis] if is_exclusive else before <= place[axis]
        return te.sum(tvm.tirx.if_then_else(counts, element, tvm.tirx.const(0, dtype)), axis=before)

    return te.compute(data.shape, value, name="running_sum")
