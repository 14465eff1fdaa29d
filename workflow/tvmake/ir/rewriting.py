"""Rewrite the graph functions of a module."""

from collections.abc import Mapping
from typing import Any

import tvm

from tvm import relax  # isort: skip


def rewritten(module: "tvm.IRModule", mutator: Any) -> "tvm.IRModule":
    """Apply a ``PyExprMutator`` of the module to all its Relax functions. Kernels stay, and the mutator may add some."""
    builder = mutator.builder_
    for variable, function in module.functions_items():
        if isinstance(function, relax.Function):
            builder.update_func(variable, mutator.visit_expr(function))
    # The builder drops the module's attributes.
    return tvm.IRModule(dict(builder.get().functions_items()), attrs=module.attrs, global_infos=module.global_infos)


def with_functions(module: "tvm.IRModule", functions: Mapping[Any, Any]) -> "tvm.IRModule":
    """Return a copy of the module with functions replaced, by name or ``GlobalVar``."""
    changed = tvm.IRModule(module.functions, attrs=module.attrs, global_infos=module.global_infos)
    for name, function in functions.items():
        changed[name] = function
    return changed


def definition(mutator: Any, value: Any) -> Any:
    """Return the expression that a variable is bound to in a running mutator; others and parameters unchanged."""
    while isinstance(value, relax.Var) and (bound := mutator.lookup_binding(value)) is not None:
        value = bound
    return value
