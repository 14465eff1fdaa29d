"""Allocate all memory of a network on one device.

Tensors carry memory scopes and storage does not, so the first device can allocate all storage.
Repair: `adreno-device-per-scope`.
"""

from typing import Any

import tvm

from tvmake.ir.expressions import is_call

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

ALLOCATE = "vm.alloc_storage"

DEVICE_ARGUMENT = 1


def allocate_on_one_device(lowered: "tvm.IRModule") -> "tvm.IRModule":
    """The lowered network with every storage on the first device."""
    changed = tvm.IRModule(dict(lowered.functions_items()), attrs=lowered.attrs, global_infos=lowered.global_infos)
    for variable, function in lowered.functions_items():
        if isinstance(function, relax.Function):
            changed[variable] = _FirstDeviceMutator(changed).visit_expr(function)
    return changed


@mutator
class _FirstDeviceMutator(PyExprMutator):
    """Rewrites the allocations."""

    def visit_call_(self, op: Any) -> Any:
        """An allocation on device 0; any other call unchanged."""
        call = self.visit_expr_post_order(op)
        if not is_call(call, ALLOCATE):
            return call
        arguments = list(call.args)
        arguments[DEVICE_ARGUMENT] = relax.prim_value(0)
        return relax.Call(call.op, arguments, call.attrs, list(call.ty_args), call.span)
