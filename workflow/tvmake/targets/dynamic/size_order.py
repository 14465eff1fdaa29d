"""Compute data-dependent sizes before the kernels that use them.

Repair: `sizes-after-kernels`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.rewriting import with_functions

from tvm import relax  # isort: skip


@tvm.transform.module_pass(opt_level=0, name="OrderSizes")
def order_sizes(module: "tvm.IRModule", _context: Any) -> "tvm.IRModule":
    """Also sort the bindings of ``main`` by the dimensions that they need. Runs after FuseOps."""
    main = module["main"]
    known = set(_variables([parameter.ty for parameter in main.params]))
    blocks = [_with_order(block, known) for block in main.body.blocks]
    if all(before.same_as(after) for before, after in zip(main.body.blocks, blocks, strict=True)):
        return module
    body = relax.SeqExpr(blocks, main.body.body)
    ordered = relax.Function(main.params, body, main.ret_ty, main.is_pure, main.attrs)
    return with_functions(module, {"main": ordered})


def _with_order(block: Any, known: set[Any]) -> Any:
    """A block in order, given the dimensions known at its start; adds those that it defines."""
    bindings = list(block.bindings)
    if not any(isinstance(binding, relax.MatchCast) for binding in bindings):
        return block
    defined = _definitions(bindings, known)
    known.update(defined)
    order = _order(bindings, defined)
    return block if order == list(range(len(bindings))) else type(block)([bindings[position] for position in order])


def _definitions(bindings: Sequence[Any], known: set[Any]) -> dict[Any, int]:
    """The variables and dimensions that bindings define, with the positions of the bindings."""
    defined: dict[Any, int] = {}
    for position, binding in enumerate(bindings):
        defined[binding.var] = position
        for dimension in _variables(binding.ty) if isinstance(binding, relax.MatchCast) else ():
            if dimension not in known:
                defined.setdefault(dimension, position)
    return defined


def _order(bindings: Sequence[Any], defined: Mapping[Any, int]) -> list[int]:
    """The positions of bindings, each as early as possible but after all that it needs."""
    needed = [
        {defined[variable] for variable in _variables([binding.value, binding.var.ty]) if variable in defined}
        - {position}
        for position, binding in enumerate(bindings)
    ]
    order: list[int] = []
    visited: set[int] = set()

    def visit(position: int) -> None:
        if position not in visited:
            visited.add(position)  # checks of a known dimension may need each other
            for earlier in sorted(needed[position]):
                visit(earlier)
            order.append(position)

    for position in range(len(bindings)):
        visit(position)
    return order


def _variables(node: Any) -> list[Any]:
    variables: list[Any] = []
    tvm_ffi.structural_walk(node, (tvm.ir.Var, variables.append))
    return variables
