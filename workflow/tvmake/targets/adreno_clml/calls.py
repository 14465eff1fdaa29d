"""Compile the parts of a network that CLML supports, both for CLML and as kernels.

Each part becomes a function of the virtual machine. It asks the runtime whether CLML is ready for these arguments, and
calls either CLML or the same operators as kernels. The kernels are fused, scheduled and tuned like all others. The
weights of a part are arguments of ``main``, so a package stores them once for both.
"""

from collections.abc import Mapping
from typing import Any

import tvm

from tvmake.ir.expressions import bindings, with_values
from tvmake.targets.adreno_clml.graph import WEIGHTS, register
from tvmake.targets.adreno_clml.partition import Part, Partition

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

READY = "_ready"
"""Suffix of a part's symbol in the name of the function that returns whether CLML computes it."""


def offload_to_clml(cut: Partition, function: str = "") -> "tvm.IRModule":
    """The network with calls of CLML; the module's attributes hold CLML's code.

    Args:
        function: the name of the package's function; empty if it has only one.

    Raises:
        MachineError: the OpenCL runtime library must be compiled, and compilation fails.
    """
    if not cut.chosen:
        return _replace_parts(cut.module, cut.parts, {})
    functions: dict[Any, Any] = {}
    callers: dict[str, Any] = {}
    for index, (name, part) in enumerate(cut.chosen.items()):
        symbol = symbol_of(index, function)
        extern = relax.GlobalVar(f"{symbol}_extern")
        kernels = relax.GlobalVar(f"{symbol}_kernels")
        caller = relax.GlobalVar(f"{symbol}_call")
        functions[extern] = part.function.with_attrs({"global_symbol": symbol, WEIGHTS: len(part.weights)})
        functions[kernels] = to_kernels(part.function)
        functions[caller] = _dispatch_function(symbol, part.function, extern, kernels)
        for variable in (extern, kernels, caller):
            _set_type(variable, functions[variable])
        callers[name] = caller
    called = _replace_parts(cut.module, cut.parts, callers)
    for variable, function in functions.items():
        called[variable] = function
    register()
    entries = ["main", *(str(caller.name_hint) for caller in callers.values())]
    passes = [relax.transform.Normalize(), relax.transform.RunCodegen(entry_functions=entries)]
    return tvm.transform.Sequential(passes)(called)


def symbol_of(index: int, function: str = "") -> str:
    """The name of a part in the package, which may have several functions."""
    return "_".join(filter(None, (f"clml_part{index}", function)))


def to_kernels(function: Any) -> Any:
    """A part's operators as a separate function."""
    builder = relax.BlockBuilder()
    params = [relax.Var(str(parameter.name), parameter.ty) for parameter in function.params]
    with builder.function("kernels", params, private=True):
        with builder.dataflow():
            results = [builder.emit_output(value) for value in inline_operators(builder, function, params)]
        builder.emit_func_output(results[0] if len(results) == 1 else relax.Tuple(results))
    return builder.get()["kernels"]


def inline_operators(builder: Any, function: Any, arguments: list[Any]) -> list[Any]:
    """Emit a part's operators and return its results."""
    values: dict[Any, Any] = dict(zip(function.params, arguments, strict=True))
    local: dict[Any, Any] = {}
    for binding in bindings(function):
        value = binding.value
        if isinstance(value, relax.Function):
            local[binding.var] = value
        elif isinstance(value, relax.Call) and value.op in local:
            composite = local[value.op]
            inner = {
                **values,
                **dict(zip(composite.params, (with_values(item, values) for item in value.args), strict=True)),
            }
            for step in bindings(composite):
                inner[step.var] = builder.emit(with_values(step.value, inner))
            values[binding.var] = with_values(composite.body.body, inner)
        else:
            values[binding.var] = with_values(value, values)
    result = with_values(function.body.body, values)
    return list(result.fields) if isinstance(result, relax.Tuple) else [result]


def _dispatch_function(symbol: str, function: Any, extern: Any, kernels: Any) -> Any:
    """A function that calls CLML or the kernels."""
    params = [relax.Var(str(parameter.name), parameter.ty) for parameter in function.params]
    ready = relax.Var("is_ready", relax.TensorType([], "bool"))
    readiness = relax.op.call_pure_packed(symbol + READY, *params, ty_args=ready.ty)
    branches = []
    for name, called in (("by_clml", extern), ("by_kernels", kernels)):
        result = relax.Var(name, function.ret_ty)
        step = relax.VarBinding(result, relax.Call(called, params))
        branches.append(relax.SeqExpr([relax.BindingBlock([step])], result))
    result = relax.Var("result", function.ret_ty)
    steps = [relax.VarBinding(ready, readiness), relax.VarBinding(result, relax.If(ready, *branches))]
    return relax.Function(params, relax.SeqExpr([relax.BindingBlock(steps)], result), function.ret_ty, True)


def _set_type(variable: Any, function: Any) -> None:
    relax.expr._update_type(variable, function.ty)


def _replace_parts(module: "tvm.IRModule", parts: Mapping[str, Part], callers: Mapping[str, Any]) -> "tvm.IRModule":
    """Replace each part called by ``main`` with its caller, or with its operators."""
    changed = dict(module.functions_items())
    main = module["main"]
    names = {str(parameter.name): parameter for parameter in main.params}
    (variable,) = [item for item in changed if str(item.name_hint) == "main"]
    changed[variable] = _PartCaller(module, parts, callers, names).visit_expr(main)
    return tvm.IRModule(changed, attrs=module.attrs, global_infos=module.global_infos)


@mutator
class _PartCaller(PyExprMutator):
    def __init__(self, module: Any, parts: Mapping[str, Part], callers: Mapping[str, Any], names: Mapping[str, Any]):
        super().__init__(module)
        self.parts, self.callers, self.names = parts, callers, names

    def visit_call_(self, op: Any) -> Any:
        name = str(op.op.name_hint) if isinstance(op.op, relax.GlobalVar) else ""
        if name not in self.parts:
            return super().visit_call_(op)
        part = self.parts[name]
        arguments = [
            *(self.visit_expr(item) for item in op.args),
            *(self.names.get(weight, weight) for weight in part.weights),
        ]
        if name in self.callers:
            return relax.Call(self.callers[name], arguments)
        results = inline_operators(self.builder_, part.function, arguments)
        return results[0] if len(results) == 1 else relax.Tuple(results)
