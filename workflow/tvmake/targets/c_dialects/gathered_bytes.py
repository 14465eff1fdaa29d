"""Bytes that lanes read from places apart, in kernels of C's dialects.

Such loops become scalar code. Repair: `gathered-bytes`.
"""

from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import dtype_name
from tvmake.targets.affected import is_affected
from tvmake.targets.c_dialects.vector_loops import unrolled

RELEASES = "<0.28"

BYTES = ("int8", "uint8")


@tvm.tirx.transform.prim_func_pass(opt_level=0, name="GatheredBytes")
class GatheredBytes:
    """Unroll vectorised loops whose lanes read bytes that do not lie side by side."""

    def transform_function(self, func: Any, _module: Any, _context: Any) -> Any:
        """The function with such loops unrolled; one without any as it is."""
        return unrolled(func, _gathers) if is_affected(RELEASES) else func


def _gathers(loop: Any) -> bool:
    """Whether lanes read bytes that do not lie side by side."""
    lanes = [loop.loop_var]
    apart: list[Any] = []

    def note_block(realize: Any) -> None:
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
            if _uses(value, lanes):
                lanes.append(axis.var)

    def note_load(load: Any) -> None:
        if dtype_name(load.source) not in BYTES or not len(load.indices):
            return
        *outer, last = load.indices
        if any(_uses(index, lanes) for index in outer) or _step(last, lanes) not in (0, 1):
            apart.append(load)

    tvm_ffi.structural_walk(loop.body, (tvm.s_tir.SBlockRealize, note_block))
    tvm_ffi.structural_walk(loop.body, (tvm.ir.expr.TensorLoad, note_load))
    return bool(apart)


def _uses(expression: Any, variables: list[Any]) -> bool:
    found: list[Any] = []

    def note(variable: Any) -> None:
        if any(variable.same_as(one) for one in variables):
            found.append(variable)

    tvm_ffi.structural_walk(expression, (tvm.ir.Var, note))
    return bool(found)


def _step(index: Any, lanes: list[Any]) -> int | None:
    """By how much an index grows with a lane; None where that is no number."""
    if not _uses(index, lanes):
        return 0
    terms = tvm.sym.detect_linear_equation(index, lanes)
    steps = {int(term) for term in terms[:-1] if isinstance(term, tvm.tirx.IntImm)} - {0}
    return steps.pop() if len(steps) == 1 else None
