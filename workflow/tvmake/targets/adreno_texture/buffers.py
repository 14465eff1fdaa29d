"""Move some of a network's tensors from textures into buffers, and allocate all memory on one device.

Tensors without a memory scope get that of buffers. Tensors carry memory scopes and storage does not, so the first device can
allocate all storage. Repairs: `adreno-views-without-scope`, `adreno-device-per-scope`.
"""

from collections.abc import Callable
from typing import Any

import tvm

from tvmake.ir.expressions import dtype_name, is_call
from tvmake.ir.rewriting import rewrite_calls, rewritten
from tvmake.targets.kernels.memory import GLOBAL
from tvmake.targets.weights.layout_free import is_tensor_call

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

ALLOCATE = "vm.alloc_storage"

DEVICE_ARGUMENT = 1

Belongs = Callable[[Any], bool]
"""Whether tensors of a type belong in buffers."""


def rewrite_with_buffers(module: "tvm.IRModule", make_mutator: Callable[["tvm.IRModule", Any], Any]) -> "tvm.IRModule":
    """Rewrite a module with a mutator built from the module and the buffer device; unchanged without such a device."""
    devices = [device for device in module.global_infos.get("vdevice", []) if str(device.memory_scope) == GLOBAL]
    return rewritten(module, make_mutator(module, devices[0])) if devices else module


def to_buffer_type(ty: Any, device: "relax.VDevice", belongs: Belongs) -> Any:
    """The type on the buffer device if its tensors belong there."""
    if isinstance(ty, relax.TupleType):
        return relax.TupleType([to_buffer_type(field, device, belongs) for field in ty.fields])
    if not isinstance(ty, relax.TensorType) or not belongs(ty):
        return ty
    return relax.TensorType(ty.shape, dtype_name(ty), device)


def store_results_in(call: Any, device: "relax.VDevice", belongs: Belongs) -> Any:
    """A kernel call with those results in buffers that belong there; any other call unchanged."""
    if not is_tensor_call(call):
        return call
    types = [to_buffer_type(ty, device, belongs) for ty in call.ty_args]
    return relax.Call(call.op, list(call.args), call.attrs, types, call.span)


def to_default_scope(module: "tvm.IRModule") -> "tvm.IRModule":
    """The network with a scope for each result; unchanged if no tensor has a scope."""
    return rewrite_with_buffers(module, _DefaultScopeMutator)


def _has_no_memory(ty: Any) -> bool:
    return ty.vdevice is None and ty.shape is not None


@mutator
class _DefaultScopeMutator(PyExprMutator):
    """Rewrites calls of kernels."""

    def __init__(self, module: "tvm.IRModule", device: "relax.VDevice"):
        super().__init__(module)
        self.device = device

    def visit_call_(self, op: Any) -> Any:
        """A call whose results all have a scope; any other call unchanged."""
        return store_results_in(self.visit_expr_post_order(op), self.device, _has_no_memory)


def allocate_on_one_device(lowered: "tvm.IRModule") -> "tvm.IRModule":
    """The lowered network with every storage on the first device."""
    return rewrite_calls(lowered, _allocate_on_first_device)


def _allocate_on_first_device(visitor: Any, op: Any, call: Any) -> Any:
    """An allocation on device 0; any other call unchanged."""
    if not is_call(call, ALLOCATE):
        return call
    arguments = list(call.args)
    arguments[DEVICE_ARGUMENT] = relax.prim_value(0)
    return relax.Call(call.op, arguments, call.attrs, list(call.ty_args), call.span)
