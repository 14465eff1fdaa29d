"""Split loops over the rows of a concatenation into a loop for each operand.

Each loop is computed in vectors. A single loop would select the operand for each value.
"""

from collections.abc import Iterator
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import is_call
from tvmake.ir.rewriting import map_body

from tvm import s_tir, tirx  # isort: skip

CONDITIONALS = ("prim.if_then_else", "tirx.if_then_else")
"""TVM's two names of the conditional expression, used by padding and concatenations."""

SEGMENTS = "tvmake.segments"
"""Annotation of a loop along a row: the ends of its segments, then the length of a vector."""

MOST = 16
"""Maximum number of segments with separate loops."""


def ends(block: Any) -> list[int]:
    """The ends of the segments of a block's rows, including the last one; empty for one segment or too many."""
    axis = block.iter_vars[-1]
    if not isinstance(axis.dom.extent, tirx.IntImm):
        return []
    length, segment_ends = int(axis.dom.extent), set[int]()

    def note(call: Any) -> None:
        if is_call(call, *CONDITIONALS):
            segment_ends.update(_bounds(call.args[0], axis.var))

    tvm_ffi.structural_walk(block.body, (tvm.ir.Call, note))
    inner = sorted(end for end in segment_ends if 0 < end < length)
    return [*inner, length] if 0 < len(inner) < MOST else []


def _bounds(condition: Any, axis: Any) -> Iterator[int]:
    """The constants that an axis is compared with."""
    if isinstance(condition, tirx.And | tirx.Or):
        yield from _bounds(condition.a, axis)
        yield from _bounds(condition.b, axis)
    elif isinstance(condition, tirx.LT | tirx.LE | tirx.GT | tirx.GE):
        for side, bound in ((condition.a, condition.b), (condition.b, condition.a)):
            if axis.same_as(side) and isinstance(bound, tirx.IntImm):
                yield int(bound)


@tirx.transform.prim_func_pass(opt_level=0, name="SplitConcatLoops")
def split_concat_loops(func: Any, _module: Any, _context: Any) -> Any:
    """Split loops with :data:`SEGMENTS` into one loop for each segment."""
    return map_body(func, (tirx.For, _divide_loop))


def _divide_loop(loop: Any) -> Any:
    if SEGMENTS not in (loop.annotations or {}):
        return loop
    *all_ends, lanes = map(int, loop.annotations[SEGMENTS])
    parts = [
        part for begin, end in zip([0, *all_ends], all_ends, strict=False) for part in _part(loop, begin, end, lanes)
    ]
    return tirx.SeqStmt(parts) if len(parts) > 1 else parts[0]


def _part(loop: Any, begin: int, end: int, lanes: int) -> Iterator[Any]:
    """Whole vectors of a segment, then ever smaller ones."""
    body = _resolve_conditionals(loop.body, begin, end)
    while begin < end:
        count = (end - begin) // lanes
        if count:
            yield _vectors(loop.loop_var, body, begin, count, lanes)
            begin += count * lanes
        lanes //= 2


def _vectors(variable: Any, body: Any, begin: int, count: int, lanes: int) -> Any:
    dtype = variable.ty.dtype
    vector, lane = tirx.Var("vector", dtype), tirx.Var("lane", dtype)
    index = vector * lanes + lane + begin
    inner = tvm_ffi.structural_map(body, (tvm.ir.Var, lambda node: index if node.same_as(variable) else node))
    kind = tirx.ForKind.VECTORIZED if lanes > 1 else tirx.ForKind.SERIAL
    zero = tirx.const(0, dtype)
    along = tirx.For(lane, zero, tirx.const(lanes, dtype), kind, inner)
    return tirx.For(vector, zero, tirx.const(count, dtype), tirx.ForKind.SERIAL, along)


def _resolve_conditionals(realize: Any, begin: int, end: int) -> Any:
    """Resolve a block's conditionals that are constant within a segment."""
    block = realize.block
    known = tvm.sym.Analyzer()
    known.bind(block.iter_vars[-1].var, tvm.ir.Range(begin, end))

    def decide(call: Any) -> Any:
        if not is_call(call, *CONDITIONALS):
            return call
        if known.can_prove(call.args[0]):
            return call.args[1]
        return call.args[2] if known.can_prove(tirx.Not(call.args[0])) else call

    body = tvm_ffi.structural_map(block.body, (tvm.ir.Call, decide))
    resolved = s_tir.SBlock(
        block.iter_vars, block.reads, block.writes, block.name_hint, body, block.init, block.alloc_buffers, block.match_buffers,
        block.annotations,
    )  # fmt: skip
    return s_tir.SBlockRealize(realize.iter_values, realize.predicate, resolved)
