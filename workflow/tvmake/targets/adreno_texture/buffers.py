"""Tensors of a network that belong into buffers, where others are textures."""

from collections.abc import Callable
from typing import Any

import tvm

from tvmake.ir.expressions import dtype_name
from tvmake.ir.rewriting import rewritten
from tvmake.targets.kernels.memory import GLOBAL
from tvmake.targets.weights.layout_free import is_tensor_call

from tvm import relax  # isort: skip

Belongs = Callable[[Any], bool]
"""Whether tensors of a type belong into buffers."""


def written_with_buffers(module: "tvm.IRModule", make_mutator: Callable[["tvm.IRModule", Any], Any]) -> "tvm.IRModule":
    """A module as a mutator writes it that is made of the module and the device of buffers; as it is where there is no such device."""
    devices = [device for device in module.global_infos.get("vdevice", []) if str(device.memory_scope) == GLOBAL]
    return rewritten(module, make_mutator(module, devices[0])) if devices else module


def placed(ty: Any, device: "relax.VDevice", belongs: Belongs) -> Any:
    """A type whose tensors are in buffers where they belong there."""
    if isinstance(ty, relax.TupleType):
        return relax.TupleType([placed(field, device, belongs) for field in ty.fields])
    if not isinstance(ty, relax.TensorType) or not belongs(ty):
        return ty
    return relax.TensorType(ty.shape, dtype_name(ty), device)


def with_results_in(call: Any, device: "relax.VDevice", belongs: Belongs) -> Any:
    """A call of a kernel with its results in buffers where they belong there; any other call as it is."""
    if not is_tensor_call(call):
        return call
    types = [placed(ty, device, belongs) for ty in call.ty_args]
    return relax.Call(call.op, list(call.args), call.attrs, types, call.span)
