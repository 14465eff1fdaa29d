"""Shorten kernel names for file systems and drivers.

TVM names a fused kernel after all its operators; a recurrent network's names have thousands of characters. OpenCL
drivers that keep a file for each kernel, such as PoCL, end the process at such a name.
"""

import hashlib
from typing import Any

import tvm

from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

LONGEST = 160
"""Characters. Most systems allow file names of 255, and drivers extend them."""

DIGITS = 12
"""Digits of the full name's digest at the end of a shortened name."""


def shorten_kernel_names(module: "tvm.IRModule") -> "tvm.IRModule":
    """Shorten names of tensor functions beyond :data:`LONGEST` to their beginning and a digest."""
    long = [variable for variable in module.get_global_vars() if _is_long(module[variable], variable.name_hint)]
    if not long:
        return module
    others = {variable: function for variable, function in module.functions_items() if variable not in long}
    renaming = _KernelRenamer(
        tvm.IRModule(others, attrs=module.attrs, global_infos=module.global_infos),
        {variable: module[variable] for variable in long},
    )
    for variable, function in others.items():
        if isinstance(function, tvm.relax.Function):
            renaming.builder_.update_func(variable, renaming.visit_expr(function))
    return renaming.builder_.get()


def _is_long(function: Any, name: str) -> bool:
    return isinstance(function, tvm.tirx.PrimFunc) and len(name) > LONGEST


def _shorten(name: str) -> str:
    return f"{name[: LONGEST - DIGITS - 1]}_{hashlib.sha256(name.encode()).hexdigest()[:DIGITS]}"


@mutator
class _KernelRenamer(PyExprMutator):
    """Adds the functions under their new names, and redirects their calls."""

    def __init__(self, module: "tvm.IRModule", functions: dict["tvm.ir.GlobalVar", "tvm.tirx.PrimFunc"]) -> None:
        super().__init__(module)
        self.renamed = {}
        for variable, function in functions.items():
            name = _shorten(str(variable.name_hint))
            if function.attrs and "global_symbol" in function.attrs:
                function = function.with_attr("global_symbol", name)
            self.renamed[variable] = self.builder_.add_func(function, name)

    def visit_global_var_(self, op: Any) -> Any:
        return self.renamed.get(op, op)
