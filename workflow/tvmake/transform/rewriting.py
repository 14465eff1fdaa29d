"""One way to rewrite the graph functions of a module, and to compare shapes for it."""

from typing import Any

import tvm
import tvm_ffi


def rewritten(module: "tvm.IRModule", mutator: Any) -> "tvm.IRModule":
    """A module with every Relax function as a mutator (``PyExprMutator``) writes it; kernels stay."""
    changed = tvm.IRModule(module.functions, attrs=module.attrs, global_infos=module.global_infos)
    for name, function in module.functions.items():
        if isinstance(function, tvm.relax.Function):
            changed[name] = mutator.visit_expr(function)
    return changed


def extents(value: Any) -> list[Any]:
    """The extents of a tensor, some of them symbolic; none where they are not known."""
    shape = getattr(value.ty, "shape", None)
    return [] if shape is None else list(shape)


def is_same(left: list[Any], right: list[Any]) -> bool:
    """Whether shapes are the same for certain."""
    return len(left) == len(right) and all(map(tvm_ffi.structural_equal, left, right))
