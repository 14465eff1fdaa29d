"""Give kernels that an import wrote the sizes of their calls, after dimensions were fixed.

TVM fixes the dimensions of calls, not of the kernels that they name, and cannot fuse the two.
"""

from collections.abc import Iterator
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import is_call
from tvmake.ir.rewriting import with_functions

from tvm import relax, tirx  # isort: skip


def fix_kernel_sizes(module: "tvm.IRModule") -> "tvm.IRModule":
    """Replace the dimensions of each kernel that have the same fixed size in all its calls."""
    sizes: dict[Any, list[dict[Any, int]]] = {}
    for function in module.functions.values():
        if isinstance(function, relax.Function):
            calls: list[Any] = []
            tvm_ffi.structural_walk(function.body, (relax.Call, calls.append))
            for call in calls:
                if is_call(call, "call_tir"):
                    sizes.setdefault(call.args[0], []).append(dict(_sizes(module[call.args[0]], call)))
    fixed = {
        str(kernel.name_hint): _with_sizes(module[kernel], of_calls[0])
        for kernel, of_calls in sizes.items()
        if of_calls[0] and all(of_call == of_calls[0] for of_call in of_calls)
    }
    return with_functions(module, fixed) if fixed else module


def _sizes(kernel: Any, call: Any) -> Iterator[tuple[Any, int]]:
    """A kernel's dimensions with their sizes in a call, where these are fixed."""
    results = [field for ty in call.ty_args for field in (ty.fields if isinstance(ty, relax.TupleType) else [ty])]
    types = [*(argument.ty for argument in call.args[1].fields), *results]
    for parameter, ty in zip(kernel.params, types, strict=False):
        if not isinstance(getattr(ty, "shape", None), relax.ShapeExpr) or not hasattr(parameter.ty, "shape"):
            continue
        for dimension, size in zip(parameter.ty.shape, ty.shape.values, strict=True):
            if isinstance(dimension, tirx.Var) and isinstance(size, tirx.IntImm):
                yield dimension, int(size)


def _with_sizes(kernel: Any, sizes: dict[Any, int]) -> Any:
    constants = {dimension: tirx.IntImm(dimension.ty.dtype, size) for dimension, size in sizes.items()}
    return tvm_ffi.structural_map(kernel, (tvm.ir.Var, lambda variable: constants.get(variable, variable)))
