"""Constants without elements as calls that make them.

TVM 0.27 writes a tensor of no elements and does not read it again, where its first extent is not 0: modules in JSON and files of
parameters are damaged then. Remove when tests/artifact/test_module_files.py::test_tvm_still_does_not_read_tensors_without_elements fails.
"""

from collections.abc import Mapping
from typing import Any

import tvm

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip


def spell_out_empty(module: "tvm.IRModule") -> "tvm.IRModule":
    """The module with a call in the place of each constant without elements."""
    changed = tvm.IRModule(module.functions, attrs=module.attrs, global_infos=module.global_infos)
    for name, function in module.functions.items():
        if isinstance(function, relax.Function):
            changed[name] = _Writer(module).visit_expr(function)
    return changed


def bind_empty(module: "tvm.IRModule", params: Mapping[str, Any]) -> tuple["tvm.IRModule", dict[str, Any]]:
    """The module with parameters without elements as constants, and the others."""
    empty = {name: value for name, value in params.items() if 0 in value.shape}
    if not empty:
        return module, dict(params)
    others = {name: value for name, value in params.items() if name not in empty}
    return relax.transform.BindParams("main", empty)(module), others


@mutator
class _Writer(PyExprMutator):
    def visit_generic_const_(self, op: Any) -> relax.Expr:
        if not isinstance(op.ty, relax.TensorType) or 0 not in op.value.shape:
            return op
        return self.builder_.emit(relax.op.zeros([int(extent) for extent in op.value.shape], str(op.value.dtype)))
