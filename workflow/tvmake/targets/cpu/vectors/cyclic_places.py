"""Split vectorised loops with indices modulo a power of two, if a condition keeps TVM from vectorising them.

The loop is divided by the power of two, so that all indices within a step are constant.
Repair: `cyclic-vector-indices`.
"""

from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import is_call
from tvmake.ir.rewriting import map_body

from tvm import s_tir, tirx  # isort: skip

LARGEST = 16
"""Largest power of two that loops are divided by."""


@tirx.transform.prim_func_pass(opt_level=0, name="CyclicPlaces")
def split_cyclic_vectors(func: Any, _module: Any, _context: Any) -> Any:
    """Divide vectorised loops that LLVM would get wrong."""
    return map_body(func, (tirx.For, _divide_loop))


def _divide_loop(loop: Any) -> Any:
    if loop.kind != tirx.ForKind.VECTORIZED or not isinstance(loop.body, s_tir.SBlockRealize):
        return loop
    if not isinstance(loop.extent, tirx.IntImm):
        return loop
    count, power = int(loop.extent), _power(loop.loop_var, loop.body)
    if power == 1 or count % power:
        return loop
    dtype = loop.loop_var.ty.dtype
    outer, inner = tirx.Var(f"{loop.loop_var.name}_o", dtype), tirx.Var(f"{loop.loop_var.name}_i", dtype)
    index = outer * tirx.const(power, dtype) + inner
    body = tvm_ffi.structural_map(
        loop.body, (tvm.ir.Var, lambda variable: index if variable.same_as(loop.loop_var) else variable)
    )
    zero = tirx.const(0, dtype)
    steps = tirx.For(inner, zero, tirx.const(power, dtype), tirx.ForKind.UNROLLED, body)
    return tirx.For(outer, zero, tirx.const(count // power, dtype), tirx.ForKind.SERIAL, steps)


def _power(lane: Any, realized: Any) -> int:
    """The largest power of two that indices are taken modulo; 1 without any, or without a condition on the lane."""
    lanes = {lane} | {
        axis.var
        for axis, value in zip(realized.block.iter_vars, realized.iter_values, strict=True)
        if _depends_on(value, {lane})
    }
    powers, conditions = [1], []

    def visit(node: Any) -> None:
        if isinstance(node, tirx.FloorMod) and isinstance(node.b, tirx.IntImm) and _depends_on(node.a, lanes):
            divisor = int(node.b)
            if 1 < divisor <= LARGEST and divisor & (divisor - 1) == 0:
                powers.append(divisor)
        if is_call(node, "prim.if_then_else") and _depends_on(node.args[0], lanes):
            conditions.append(node)

    tvm_ffi.structural_walk(realized.block.body, (object, visit))
    return max(powers) if conditions else 1


def _depends_on(value: Any, variables: set[Any]) -> bool:
    uses: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tvm.ir.Var) and any(node.same_as(variable) for variable in variables):
            uses.append(node)

    tvm_ffi.structural_walk(value, (object, visit))
    return bool(uses)
