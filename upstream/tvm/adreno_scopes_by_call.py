"""SpecializePrimFuncBasedOnCallSite gives a kernel the memory scopes of its last call alone."""

import sys

from textures import conv, lowered
from tvm import relax

op = relax.op


def net(x, w, v):
    """The same softmax of a tensor that a convolution wants in a texture, and of one in a buffer."""
    first = conv(x, w)
    return op.concat([op.nn.softmax(conv(first, v), 2), op.nn.softmax(conv(conv(conv(first, v), v), v), 2)], 1)


def scope(ty) -> str:
    device = getattr(ty, "vdevice", None)
    return str(device.memory_scope) if device is not None and device.memory_scope else "global"


def still_needed() -> bool:
    module = lowered(net, ((1, 8, 8, 8), "float32"), ((8, 8, 3, 3), "float32"), ((8, 8, 3, 3), "float32"))
    wrong = []

    def visit(node):
        if isinstance(node, relax.Call) and getattr(node.op, "name", "") == "relax.call_tir":
            name, arguments = node.args[0], node.args[1]
            passed = [scope(tensor.ty) for tensor in (*arguments, node)]
            wanted = [str(parameter.ty.storage_scope) or "global" for parameter in module[name].params]
            if passed != wanted:
                wrong.append(f"{name.name_hint} wants {wanted} and is given {passed}")

    relax.analysis.post_order_visit(module["main"], visit)
    print("\n".join(wrong) or "every call fits its kernel")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(still_needed())
