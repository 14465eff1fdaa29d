"""Say of every tensor that is in no texture that it is in a buffer.

TVM 0.27's AnnotateCustomMemoryScope says it of some results and of others nothing. Where a result of the second kind is
reshaped into one of the first, RewriteDataflowReshape makes a view whose type has no memory, and the network's outputs go
on naming the variable that was there before: "Var lv is not defined". Remove when
tests/targets/adreno/test_usual_memory.py::test_tvm_still_loses_views_of_results_without_memory fails.
"""

from typing import Any

import tvm

from tvmake.targets.dtypes import dtype_name
from tvmake.targets.memory import GLOBAL
from tvmake.targets.weights.layout_free import is_tensor_call

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip


def in_usual_memory(module: "tvm.IRModule") -> "tvm.IRModule":
    """The network with a memory for each result; as it is where no tensor has one."""
    devices = [device for device in module.global_infos.get("vdevice", []) if str(device.memory_scope) == GLOBAL]
    if not devices:
        return module
    changed = tvm.IRModule(dict(module.functions_items()), attrs=module.attrs, global_infos=module.global_infos)
    for variable, function in module.functions_items():
        if isinstance(function, relax.Function):
            changed[variable] = _InBuffers(changed, devices[0]).visit_expr(function)
    return changed


@mutator
class _InBuffers(PyExprMutator):
    """Rewrites calls of kernels.

    Args:
        device: of buffers.
    """

    def __init__(self, module: "tvm.IRModule", device: "relax.VDevice"):
        super().__init__(module)
        self.device = device

    def visit_call_(self, op: Any) -> Any:
        """A call whose results all have a memory; any other call as it is."""
        call = self.visit_expr_post_order(op)
        if not is_tensor_call(call):
            return call
        types = [self._placed(ty) for ty in call.ty_args]
        return relax.Call(call.op, list(call.args), call.attrs, types, call.span)

    def _placed(self, ty: Any) -> Any:
        if isinstance(ty, relax.TupleType):
            return relax.TupleType([self._placed(field) for field in ty.fields])
        if not isinstance(ty, relax.TensorType) or ty.vdevice is not None or ty.shape is None:
            return ty
        return relax.TensorType(ty.shape, dtype_name(ty), self.device)
