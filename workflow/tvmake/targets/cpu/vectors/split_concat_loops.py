"""Split loops over the rows of a concatenation into a loop for each operand.

Each loop is computed in vectors. A single loop would select the operand for each value.
"""

from collections.abc import Iterator
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import is_call

from tvm import s_tir, tirx  # isort: skip

CONDITIONALS = ("prim.if_then_else", "tirx.if_then_else")
"""What takes a value where there is one: padding, concatenations. TVM has two names for it."""

SEGMENTS = "tvmake.segments"
"""On a loop along a row: where its parts end, and behind these the length of a vector."""

MOST = 16
"""Parts for which there are loops of their own."""


def ends(block: Any) -> list[int]:
    """Where the parts of a block's rows end, the last end among them; nothing where there are no parts, or too many."""
    axis = block.iter_vars[-1]
    if not isinstance(axis.dom.extent, tirx.IntImm):
        return []
    length, found = int(axis.dom.extent), set[int]()

    def note(call: Any) -> None:
        if is_call(call, *CONDITIONALS):
            found.update(_bounds(call.args[0], axis.var))

    tvm_ffi.structural_walk(block.body, (tvm.ir.Call, note))
    inner = sorted(end for end in found if 0 < end < length)
    return [*inner, length] if 0 < len(inner) < MOST else []


def _bounds(condition: Any, axis: Any) -> Iterator[int]:
    """The numbers that an axis is compared with."""
    if isinstance(condition, tirx.And | tirx.Or):
        yield from _bounds(condition.a, axis)
        yield from _bounds(condition.b, axis)
    elif isinstance(condition, tirx.LT | tirx.LE | tirx.GT | tirx.GE):
        for side, other in ((condition.a, condition.b), (condition.b, condition.a)):
            if axis.same_as(side) and isinstance(other, tirx.IntImm):
                yield int(other)


@tirx.transform.prim_func_pass(opt_level=0, name="SplitConcatLoops")
class SplitConcatLoops:
    """Write loops with :data:`SEGMENTS` as one for each part."""

    def transform_function(self, func: Any, _module: Any, _context: Any) -> Any:
        """The function with such loops divided; one without any as it is."""
        body = tvm_ffi.structural_map(func.body, (tirx.For, _divided))
        return func if body.same_as(func.body) else func.with_body(body)


def _divided(loop: Any) -> Any:
    if SEGMENTS not in (loop.annotations or {}):
        return loop
    *all_ends, lanes = map(int, loop.annotations[SEGMENTS])
    parts = [
        part for begin, end in zip([0, *all_ends], all_ends, strict=False) for part in _part(loop, begin, end, lanes)
    ]
    return tirx.SeqStmt(parts) if len(parts) > 1 else parts[0]


def _part(loop: Any, begin: int, end: int, lanes: int) -> Iterator[Any]:
    """Whole vectors of a part, and then ever smaller ones."""
    body = _decided(loop.body, begin, end)
    while begin < end:
        count = (end - begin) // lanes
        if count:
            yield _vectors(loop.loop_var, body, begin, count, lanes)
            begin += count * lanes
        lanes //= 2


def _vectors(variable: Any, body: Any, begin: int, count: int, lanes: int) -> Any:
    dtype = variable.ty.dtype
    vector, lane = tirx.Var("vector", dtype), tirx.Var("lane", dtype)
    place = vector * lanes + lane + begin
    inner = tvm_ffi.structural_map(body, (tvm.ir.Var, lambda one: place if one.same_as(variable) else one))
    kind = tirx.ForKind.VECTORIZED if lanes > 1 else tirx.ForKind.SERIAL
    zero = tirx.const(0, dtype)
    along = tirx.For(lane, zero, tirx.const(lanes, dtype), kind, inner)
    return tirx.For(vector, zero, tirx.const(count, dtype), tirx.ForKind.SERIAL, along)


def _decided(realize: Any, begin: int, end: int) -> Any:
    """A block's values in a part: those of the conditions that are true there."""
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
    decided = s_tir.SBlock(
        block.iter_vars, block.reads, block.writes, block.name_hint, body, block.init, block.alloc_buffers, block.match_buffers,
        block.annotations,
    )  # fmt: skip
    return s_tir.SBlockRealize(realize.iter_values, realize.predicate, decided)
