"""Constants without elements as calls that make them.

TVM 0.27 writes a tensor of no elements and does not read it again, where its first extent is not 0: modules in JSON and files of
parameters are damaged then. Remove when tests/artifact/test_module_files.py::test_tvm_still_does_not_read_tensors_without_elements fails.
"""

from collections.abc import Mapping
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.rewriting import with_functions

from tvm import relax  # isort: skip


def spell_out_empty(module: "tvm.IRModule") -> "tvm.IRModule":
    """The module with a call in the place of each constant without elements."""
    if not any(_is_empty(constant) for constant in _constants(module)):
        return module
    functions = {
        name: tvm_ffi.structural_map(function, [(tvm.ir.GenericConst, _written)])
        for name, function in module.functions.items()
        if isinstance(function, relax.Function)
    }
    return relax.transform.Normalize()(with_functions(module, functions))


def _constants(module: "tvm.IRModule") -> list[Any]:
    found: list[Any] = []
    for function in module.functions.values():
        if isinstance(function, relax.Function):
            tvm_ffi.structural_walk(function, (tvm.ir.GenericConst, found.append))
    return found


def _written(constant: Any) -> Any:
    return (
        relax.op.zeros(list(map(int, constant.value.shape)), str(constant.value.dtype))
        if _is_empty(constant)
        else constant
    )


def _is_empty(constant: Any) -> bool:
    return isinstance(constant.ty, relax.TensorType) and 0 in constant.value.shape


def bind_empty(module: "tvm.IRModule", params: Mapping[str, Any]) -> tuple["tvm.IRModule", dict[str, Any]]:
    """The module with parameters without elements as constants, and the others."""
    empty = {name: value for name, value in params.items() if 0 in value.shape}
    if not empty:
        return module, dict(params)
    others = {name: value for name, value in params.items() if name not in empty}
    return relax.transform.BindParams("main", empty)(module), others
