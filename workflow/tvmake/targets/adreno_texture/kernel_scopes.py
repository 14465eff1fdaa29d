"""Create one kernel for each combination of memory scopes in its calls.

Repair: `adreno-scopes-by-call`.
"""

from collections import defaultdict
from typing import Any

import tvm

from tvmake.ir.expressions import dtype_name
from tvmake.targets.kernels.memory import GLOBAL, memory_scope
from tvmake.targets.weights.layout_free import is_tensor_call, tensor_calls

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

Scopes = tuple[str, ...]


def split_kernels_by_scope(module: "tvm.IRModule") -> "tvm.IRModule":
    """Give each call with other scopes than the kernel's first call a copy of the kernel."""
    scopes_by_kernel: dict[str, dict[Scopes, None]] = defaultdict(dict)
    for call in tensor_calls(module):
        scopes_by_kernel[str(call.args[0].name_hint)][scopes_of(call)] = None
    names: dict[tuple[str, Scopes], str] = {}
    names_in_use = {str(variable.name_hint) for variable in module.get_global_vars()}
    for kernel, combinations in scopes_by_kernel.items():
        for number, scopes in enumerate(list(combinations)[1:], 1):
            name = f"{kernel}_scope{number}"
            while name in names_in_use:
                name += "_"
            names_in_use.add(name)
            names[(kernel, scopes)] = name
    if not names:
        return module
    changed = tvm.IRModule(dict(module.functions_items()), attrs=module.attrs, global_infos=module.global_infos)
    copies = {}
    for (kernel, scopes), name in names.items():
        # A separate variable, because its type describes the kernel's arguments; block builders set the type.
        function = module[kernel]
        if "global_symbol" in function.attrs:
            function = function.with_attr("global_symbol", name)
        copies[(kernel, scopes)] = relax.BlockBuilder().add_func(function, name)
        changed[copies[(kernel, scopes)]] = function
    for variable, function in module.functions_items():
        if isinstance(function, relax.Function):
            changed[variable] = _KernelRedirector(changed, copies).visit_expr(function)
    return changed


def specialize_to_scopes(module: "tvm.IRModule") -> "tvm.IRModule":
    """Kernels whose buffers have the memory scopes that their calls pass.

    Args:
        module: all calls of a kernel agree on scopes (:func:`split_kernels_by_scope`).
    """
    changed = tvm.IRModule(dict(module.functions_items()), attrs=module.attrs, global_infos=module.global_infos)
    for call in tensor_calls(module):
        kernel = module[call.args[0]]
        images = {
            parameter: tvm.tirx.decl_buffer(
                list(parameter.ty.shape), dtype_name(parameter.ty), str(parameter.name), scope=scope
            )
            for parameter, scope in zip(kernel.params, scopes_of(call), strict=False)  # scalars come last
            if scope != memory_scope(parameter)
        }
        if images:
            changed[call.args[0]] = kernel.specialize(images)
    return changed


def scopes_of(call: Any) -> Scopes:
    """The memory scopes of a call's arguments and results, in order."""
    types = [argument.ty for argument in call.args[1].fields] + list(call.ty_args)
    return tuple(scope for ty in types for scope in _scopes(ty))


def scope_of(ty: Any) -> str:
    """The memory scope of a tensor's type."""
    device = getattr(ty, "vdevice", None)
    return (str(device.memory_scope) or GLOBAL) if device is not None else GLOBAL


def _scopes(ty: Any) -> list[str]:
    if isinstance(ty, relax.TupleType):
        return [scope for field in ty.fields for scope in _scopes(field)]
    return [scope_of(ty)]


@mutator
class _KernelRedirector(PyExprMutator):
    """Redirects calls to the copies."""

    def __init__(self, module: "tvm.IRModule", copies: dict[tuple[str, Scopes], Any]):
        super().__init__(module)
        self.copies = copies

    def visit_call_(self, op: Any) -> Any:
        """A call of the kernel for its scopes."""
        call = self.visit_expr_post_order(op)
        if not is_tensor_call(call):
            return call
        copy = self.copies.get((str(call.args[0].name_hint), scopes_of(call)))
        if copy is None:
            return call
        return relax.Call(call.op, [copy, *list(call.args)[1:]], call.attrs, list(call.ty_args), call.span)
