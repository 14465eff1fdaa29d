"""Propagate a network's permission to multiply float32 in TF32 to its kernels."""

from typing import Any

import tvm

from tvmake.ir.attributes import TF32


def propagate_tf32(module: "tvm.IRModule") -> "tvm.IRModule":
    """Copy the network's attribute to each kernel."""
    if TF32 not in (module.attrs or {}):
        return module
    functions = {
        variable: function.with_attr(TF32, True) if isinstance(function, tvm.tirx.PrimFunc) else function
        for variable, function in module.functions_items()
    }
    return tvm.IRModule(functions, attrs=module.attrs, global_infos=module.global_infos)


def allows_tf32(kernel: Any) -> bool:
    """Whether a kernel may multiply float32 in TF32."""
    return TF32 in (kernel.attrs or {})
