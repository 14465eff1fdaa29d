"""One way to rewrite the graph functions of a module."""

from collections.abc import Mapping
from typing import Any

import tvm

from tvm import relax  # isort: skip


def rewritten(module: "tvm.IRModule", mutator: Any) -> "tvm.IRModule":
    """A module with every Relax function as a mutator (``PyExprMutator`` of this module) writes it; kernels stay, and it may add some."""
    builder = mutator.builder_
    for variable, function in module.functions_items():
        if isinstance(function, relax.Function):
            builder.update_func(variable, mutator.visit_expr(function))
    # A builder's module has lost the attributes.
    return tvm.IRModule(dict(builder.get().functions_items()), attrs=module.attrs, global_infos=module.global_infos)


def with_functions(module: "tvm.IRModule", functions: Mapping[Any, Any]) -> "tvm.IRModule":
    """A module with some functions, by name or ``GlobalVar``, replaced; the given one is not changed."""
    changed = tvm.IRModule(module.functions, attrs=module.attrs, global_infos=module.global_infos)
    for name, function in functions.items():
        changed[name] = function
    return changed


def definition(mutator: Any, value: Any) -> Any:
    """What a variable is bound to where a mutator is at work; other expressions, and parameters, as they are."""
    while isinstance(value, relax.Var) and (bound := mutator.lookup_binding(value)) is not None:
        value = bound
    return value
