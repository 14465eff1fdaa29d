"""Move some of a network's tensors from textures into buffers."""

from collections.abc import Callable
from typing import Any

import tvm

from tvmake.ir.expressions import dtype_name
from tvmake.ir.rewriting import rewritten
from tvmake.targets.kernels.memory import GLOBAL
from tvmake.targets.weights.layout_free import is_tensor_call

from tvm import relax  # isort: skip

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
