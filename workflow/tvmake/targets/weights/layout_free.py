"""Mark a kernel's weight arguments, so that tuning may choose their layout.

MetaSchedule reads the attribute ``layout_free_buffers`` of a kernel. TVM's own pass (AttachAttrLayoutFreeBuffers)
renames every kernel and also marks constants. Here kernels keep their names, and an argument stays unmarked if any call
passes a computed tensor.
"""

from collections.abc import Iterator

import tvm

from tvmake.ir.expressions import is_call

ATTRIBUTE = "layout_free_buffers"


def mark_layout_free(module: "tvm.IRModule", inputs: int) -> "tvm.IRModule":
    """Mark the arguments that are weights, so parameters of ``main`` after its inputs, in every call.

    Args:
        inputs: number of model inputs among ``main``'s arguments.
    """
    weights = dict.fromkeys(module["main"].params[inputs:])
    free: dict[str, set[int]] = {}
    for call in tensor_calls(module):
        name = str(call.args[0].name_hint)
        indices = {index for index, value in enumerate(call.args[1].fields) if value in weights}
        free[name] = free.get(name, indices) & indices
    functions = {
        variable: function.with_attr(ATTRIBUTE, sorted(free[str(variable.name_hint)]))
        if free.get(str(variable.name_hint)) and isinstance(function, tvm.tirx.PrimFunc)
        else function
        for variable, function in module.functions_items()
    }
    return tvm.IRModule(functions, attrs=module.attrs, global_infos=module.global_infos)


def tensor_calls(module: "tvm.IRModule") -> Iterator["tvm.relax.Call"]:
    """All calls of tensor functions in a module's Relax functions."""
    calls: list[tvm.relax.Call] = []

    def visit(node: object) -> None:
        if is_tensor_call(node):
            calls.append(node)

    for _, function in module.functions_items():
        if isinstance(function, tvm.relax.Function):
            tvm.relax.analysis.post_order_visit(function.body, visit)
    return iter(calls)


def is_tensor_call(node: object) -> bool:
    """Whether a Relax node calls a tensor function."""
    return is_call(node, "call_tir")
