"""Mark which of a kernel's arguments are weights, so that tuning may choose their layout.

MetaSchedule reads the attribute ``layout_free_buffers`` of a kernel. TVM's own pass (AttachAttrLayoutFreeBuffers)
renames every kernel and marks constants too; here kernels keep their names, and one that is called with a weight in
one place and with a computed tensor in another keeps that argument as it is.
"""

from collections.abc import Iterator

import tvm

from tvmake.ir.expressions import is_call

ATTRIBUTE = "layout_free_buffers"


def mark_layout_free(module: "tvm.IRModule", inputs: int) -> "tvm.IRModule":
    """Mark the arguments that are parameters of ``main`` beyond its inputs in every call.

    Args:
        inputs: how many of ``main``'s arguments are the model's inputs.
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
    """Every call of a tensor function, in all Relax functions of a module."""
    found: list[tvm.relax.Call] = []

    def visit(node: object) -> None:
        if is_tensor_call(node):
            found.append(node)

    for _, function in module.functions_items():
        if isinstance(function, tvm.relax.Function):
            tvm.relax.analysis.post_order_visit(function.body, visit)
    return iter(found)


def is_tensor_call(node: object) -> bool:
    """Whether a Relax node calls a tensor function."""
    return is_call(node, "call_tir")
