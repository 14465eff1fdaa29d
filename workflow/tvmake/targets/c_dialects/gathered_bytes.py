"""Unroll loops whose lanes read bytes at distant addresses, in kernels of C's dialects.

Such loops become scalar code. Repair: `gathered-bytes`.
"""

from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import dtype_name
from tvmake.targets.affected import is_affected
from tvmake.targets.c_dialects.vector_loops import unroll_loops

RELEASES = "<0.28"

BYTES = ("int8", "uint8")


@tvm.tirx.transform.prim_func_pass(opt_level=0, name="GatheredBytes")
class GatheredBytes:
    """Unroll vectorised loops whose lanes read non-adjacent bytes."""

    def transform_function(self, func: Any, _module: Any, _context: Any) -> Any:
        """The function with such loops unrolled; otherwise unchanged."""
        return unroll_loops(func, _gathers) if is_affected(RELEASES) else func


def _gathers(loop: Any) -> bool:
    """Whether lanes read non-adjacent bytes."""
    lanes = [loop.loop_var]
    gathers: list[Any] = []

    def note_block(realize: Any) -> None:
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
            if _uses(value, lanes):
                lanes.append(axis.var)

    def note_load(load: Any) -> None:
        if dtype_name(load.source) not in BYTES or not len(load.indices):
            return
        *outer, last = load.indices
        if any(_uses(index, lanes) for index in outer) or _stride(last, lanes) not in (0, 1):
            gathers.append(load)

    tvm_ffi.structural_walk(loop.body, (tvm.s_tir.SBlockRealize, note_block))
    tvm_ffi.structural_walk(loop.body, (tvm.ir.expr.TensorLoad, note_load))
    return bool(gathers)


def _uses(expression: Any, variables: list[Any]) -> bool:
    uses: list[Any] = []

    def note(variable: Any) -> None:
        if any(variable.same_as(lane) for lane in variables):
            uses.append(variable)

    tvm_ffi.structural_walk(expression, (tvm.ir.Var, note))
    return bool(uses)


def _stride(index: Any, lanes: list[Any]) -> int | None:
    """The increment of an index per lane; None if it is not a constant."""
    if not _uses(index, lanes):
        return 0
    terms = tvm.sym.detect_linear_equation(index, lanes)
    strides = {int(term) for term in terms[:-1] if isinstance(term, tvm.tirx.IntImm)} - {0}
    return strides.pop() if len(strides) == 1 else None
