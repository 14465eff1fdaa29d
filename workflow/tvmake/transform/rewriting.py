"""One way to rewrite the graph functions of a module."""

from typing import Any

import tvm


def rewritten(module: "tvm.IRModule", mutator: Any) -> "tvm.IRModule":
    """A module with every Relax function as a mutator (``PyExprMutator``) writes it; kernels stay."""
    changed = tvm.IRModule(module.functions, attrs=module.attrs, global_infos=module.global_infos)
    for name, function in module.functions.items():
        if isinstance(function, tvm.relax.Function):
            changed[name] = mutator.visit_expr(function)
    return changed
