"""Sizes that are known when a network runs come before what is computed with them.

Repair: `sizes-after-kernels`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.rewriting import with_functions

from tvm import relax  # isort: skip


@tvm.transform.module_pass(opt_level=0, name="OrderSizes")
class OrderSizes:
    """Sort the bindings of ``main`` by the dimensions that they need, too. After FuseOps."""

    def transform_module(self, module: "tvm.IRModule", _context: Any) -> "tvm.IRModule":
        """The module in such an order; unchanged if it is in one."""
        main = module["main"]
        known = set(_variables([parameter.ty for parameter in main.params]))
        blocks = [_with_order(block, known) for block in main.body.blocks]
        if all(before.same_as(after) for before, after in zip(main.body.blocks, blocks, strict=True)):
            return module
        body = relax.SeqExpr(blocks, main.body.body)
        ordered = relax.Function(main.params, body, main.ret_ty, main.is_pure, main.attrs)
        return with_functions(module, {"main": ordered})


def _with_order(block: Any, known: set[Any]) -> Any:
    """A block in order, where some dimensions are known from the start; those that it defines are known afterwards."""
    bindings = list(block.bindings)
    if not any(isinstance(binding, relax.MatchCast) for binding in bindings):
        return block
    defined = _definitions(bindings, known)
    known.update(defined)
    order = _order(bindings, defined)
    return block if order == list(range(len(bindings))) else type(block)([bindings[place] for place in order])


def _definitions(bindings: Sequence[Any], known: set[Any]) -> dict[Any, int]:
    """The variables and dimensions that bindings define, with the places of the bindings."""
    defined: dict[Any, int] = {}
    for place, binding in enumerate(bindings):
        defined[binding.var] = place
        for dimension in _variables(binding.ty) if isinstance(binding, relax.MatchCast) else ():
            if dimension not in known:
                defined.setdefault(dimension, place)
    return defined


def _order(bindings: Sequence[Any], defined: Mapping[Any, int]) -> list[int]:
    """The places of bindings, each as early as before or behind what it needs."""
    needed = [
        {defined[each] for each in _variables([binding.value, binding.var.ty]) if each in defined} - {place}
        for place, binding in enumerate(bindings)
    ]
    order: list[int] = []
    begun: set[int] = set()

    def visit(place: int) -> None:
        if place not in begun:
            begun.add(place)  # checks of a dimension that is known already may need each other
            for earlier in sorted(needed[place]):
                visit(earlier)
            order.append(place)

    for place in range(len(bindings)):
        visit(place)
    return order


def _variables(node: Any) -> list[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(node, (tvm.ir.Var, found.append))
    return found
