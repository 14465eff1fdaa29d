"""Loops over vectors of which the last is incomplete: whole vectors, and then the values that are left one by one.

TVM's LoopPartition does the same for a loop with ``pragma_loop_partition_hint``, but TVM 0.27's NarrowDataType, which runs before
it, gives loops of int64 another variable and leaves the hint with the old one, and Relax's kernels have no other loops. Without this
pass such a loop is right and slow: it asks for each value whether there is one.
"""

from typing import Any

import tvm
import tvm_ffi

from tvm import s_tir, tirx  # isort: skip

LENGTH = "tvmake.values"
"""How many values a loop over vectors, and the loop over lanes in it, compute."""


@tirx.transform.prim_func_pass(opt_level=0, name="IncompleteVectors")
class IncompleteVectors:
    """Write loops with :data:`LENGTH` as two."""

    def transform_function(self, func: Any, _module: Any, _context: Any) -> Any:
        """The function with such loops divided; one without any as it is."""
        body = tvm_ffi.structural_map(func.body, (tirx.For, _divided))
        return func if body.same_as(func.body) else func.with_body(body)


def _divided(loop: Any) -> Any:
    if LENGTH not in (loop.annotations or {}) or not isinstance(loop.body, tirx.For):
        return loop
    vector, lanes = loop.loop_var, loop.body
    whole, rest = divmod(int(loop.annotations[LENGTH]), int(lanes.extent))

    def within(count: int) -> Any:
        """The body, of which this many vectors are computed."""
        known = tvm.sym.Analyzer()
        known.bind(vector, tvm.ir.Range(0, count))
        known.bind(lanes.loop_var, tvm.ir.Range(0, lanes.extent))
        return tvm_ffi.structural_map(lanes, (s_tir.SBlockRealize, lambda block: _unconditional(block, known)))

    def last(variable: Any) -> Any:
        return tirx.const(whole, vector.ty.dtype) if variable.same_as(vector) else variable

    vectors = tirx.For(vector, loop.min, tirx.const(whole, vector.ty.dtype), loop.kind, within(whole))
    values = tvm_ffi.structural_map(lanes.body, (tvm.ir.Var, last))
    extent = tirx.const(rest, lanes.loop_var.ty.dtype)
    return tirx.SeqStmt([vectors, tirx.For(lanes.loop_var, lanes.min, extent, tirx.ForKind.SERIAL, values)])


def _unconditional(block: Any, known: Any) -> Any:
    if not known.can_prove(block.predicate):
        return block
    return s_tir.SBlockRealize(block.iter_values, tirx.const(True, "bool"), block.block)
