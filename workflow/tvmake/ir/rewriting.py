"""Rewrite the functions of a module."""

from collections.abc import Callable, Mapping
from typing import Any

import tvm
import tvm_ffi

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

Rewrite = Callable[[PyExprMutator, relax.Call, relax.Call], relax.Expr]
"""Rewrites a call: from the visitor, the call before and the call after its operands were rewritten."""


def rewritten(module: "tvm.IRModule", mutator: Any) -> "tvm.IRModule":
    """Apply a ``PyExprMutator`` of the module to all its Relax functions. Kernels stay, and the mutator may add some."""
    builder = mutator.builder_
    for variable, function in module.functions_items():
        if isinstance(function, relax.Function):
            builder.update_func(variable, mutator.visit_expr(function))
    # The builder drops the module's attributes.
    return tvm.IRModule(dict(builder.get().functions_items()), attrs=module.attrs, global_infos=module.global_infos)


@mutator
class _CallMutator(PyExprMutator):
    def __init__(self, module: "tvm.IRModule", rewrite: Rewrite):
        super().__init__(module)
        self._rewrite = rewrite

    def visit_call_(self, op: relax.Call) -> relax.Expr:
        return self._rewrite(self, op, self.visit_expr_post_order(op))


def rewrite_calls(module: "tvm.IRModule", rewrite: Rewrite) -> "tvm.IRModule":
    """Apply a function to all calls of a module's Relax functions; the visitor emits and finds bindings."""
    return rewritten(module, _CallMutator(module, rewrite))


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


def map_body(kernel: Any, callbacks: Any) -> Any:
    """Replace nodes of a kernel's body (``tvm_ffi.structural_map``); returns the same kernel if nothing changes."""
    body = tvm_ffi.structural_map(kernel.body, callbacks)
    return kernel if body.same_as(kernel.body) else kernel.with_body(body)
