"""Represent constants without elements by calls that create them.

Repair: `empty-tensors`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.rewriting import with_functions

from tvm import relax  # isort: skip


def spell_out_empty(module: "tvm.IRModule") -> "tvm.IRModule":
    """Replace each constant without elements by a call."""
    return _replace(module, relax.op.zeros)


@tvm.transform.module_pass(opt_level=0, name="AllocateEmpty")
class AllocateEmpty:
    """Constants without elements as tensors that are allocated. Between RemovePurityChecking and CallTIRRewrite."""

    def transform_module(self, module: "tvm.IRModule", _context: Any) -> "tvm.IRModule":
        """The module with these calls replaced by constants."""
        return _replace(module, lambda shape, dtype: relax.op.builtin.alloc_tensor(shape, dtype, 0))


def bind_empty(module: "tvm.IRModule", params: Mapping[str, Any]) -> tuple["tvm.IRModule", dict[str, Any]]:
    """The module with parameters without elements as constants, and the others."""
    empty = {name: value for name, value in params.items() if 0 in value.shape}
    if not empty:
        return module, dict(params)
    others = {name: value for name, value in params.items() if name not in empty}
    return relax.transform.BindParams("main", empty)(module), others


def _replace(module: "tvm.IRModule", make: Callable[[Any, str], Any]) -> "tvm.IRModule":
    def write_shape(constant: Any) -> Any:
        if not _is_empty(constant):
            return constant
        return make(relax.ShapeExpr(list(map(int, constant.value.shape))), str(constant.value.dtype))

    if not any(map(_is_empty, _constants(module))):
        return module
    functions = {
        name: tvm_ffi.structural_map(function, [(tvm.ir.GenericConst, write_shape)])
        for name, function in module.functions.items()
        if isinstance(function, relax.Function)
    }
    return relax.transform.Normalize()(with_functions(module, functions))


def _constants(module: "tvm.IRModule") -> list[Any]:
    constants: list[Any] = []
    for function in module.functions.values():
        if isinstance(function, relax.Function):
            tvm_ffi.structural_walk(function, (tvm.ir.GenericConst, constants.append))
    return constants


def _is_empty(constant: Any) -> bool:
    return isinstance(constant.ty, relax.TensorType) and 0 in constant.value.shape
