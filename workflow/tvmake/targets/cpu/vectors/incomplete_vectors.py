"""Split loops over vectors whose last vector is incomplete into whole vectors and the remaining values.

This replaces TVM's LoopPartition. Without it such a loop is correct but slow, because it tests each value.
Repair: `lost-partition-hints`.
"""

from collections.abc import Callable
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.rewriting import map_body

from tvm import s_tir, tirx  # isort: skip

LENGTH = "tvmake.values"
"""Annotation: number of values that a loop over vectors and its innermost loop over lanes compute."""

VALID = "tvmake.valid"
"""Annotation of a tile's loop over vectors: number of valid values in the last tile."""

BEYOND = "tvmake.beyond"
"""Annotation of a loop over lanes that may compute whole vectors: its buffers extend beyond the last value."""


@tirx.transform.prim_func_pass(opt_level=0, name="IncompleteVectors")
def split_incomplete_vectors(func: Any, _module: Any, _context: Any) -> Any:
    """Split loops with :data:`LENGTH` or :data:`VALID` into whole vectors and remaining values; write loops with
    :data:`BEYOND` as whole vectors."""
    return map_body(func, (tirx.For, _divide_loop))


def _divide_loop(loop: Any) -> Any:
    annotations = loop.annotations or {}
    if BEYOND in annotations:
        return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, drop_lane_conditions(loop.body, loop.loop_var))
    if not isinstance(loop.body, tirx.For):
        return loop
    if VALID in annotations:
        return _divide_tile(loop, int(annotations[VALID]))
    return _divide_row(loop, int(annotations[LENGTH])) if LENGTH in annotations else loop


def _divide_row(loop: Any, length: int) -> Any:
    vector, lanes = loop.loop_var, loop.body
    while isinstance(lanes.body, tirx.For):  # a line of a tile that is transposed
        lanes = lanes.body
    whole, rest = divmod(length, int(lanes.extent))
    known = tvm.sym.Analyzer()
    known.bind(vector, tvm.ir.Range(0, whole))
    known.bind(lanes.loop_var, tvm.ir.Range(0, lanes.extent))
    vectors = tirx.For(
        vector, loop.min, like(vector, whole), loop.kind, _drop_true_conditions(loop.body, known.can_prove)
    )
    extent = like(lanes.loop_var, rest)
    remainder = tirx.For(lanes.loop_var, lanes.min, extent, tirx.ForKind.SERIAL, lanes.body)
    values = tvm_ffi.structural_map(
        loop.body, (tirx.For, lambda candidate: remainder if candidate.same_as(lanes) else candidate)
    )
    return tirx.SeqStmt([vectors, substitute(values, vector, like(vector, whole))])


def _divide_tile(loop: Any, valid: int) -> Any:
    """The vectors common to all tiles, then, under one condition, the other vectors or the remaining values."""
    vector, lanes = loop.loop_var, loop.body
    count, length = int(loop.extent), int(lanes.extent)
    whole, rest = divmod(valid, length)
    condition = conjunction([term for term in terms(lanes) if uses_variable(term, lanes.loop_var)])
    is_whole = substitute(
        substitute(condition, vector, like(vector, count - 1)), lanes.loop_var, like(lanes.loop_var, length - 1)
    )
    body = tirx.For(
        lanes.loop_var, lanes.min, lanes.extent, lanes.kind, drop_lane_conditions(lanes.body, lanes.loop_var)
    )

    def vectors(first: int, end: int) -> Any:
        return tirx.For(
            vector, loop.min, like(vector, end - first), loop.kind, substitute(body, vector, vector + first)
        )

    def values() -> Any:
        kind = tirx.ForKind.UNROLLED if rest & (rest - 1) or rest == 1 else tirx.ForKind.VECTORIZED
        last = tirx.For(lanes.loop_var, lanes.min, like(lanes.loop_var, rest), kind, body.body)
        return substitute(last, vector, like(vector, whole))

    parts = [vectors(0, whole)] if whole else []
    if tvm.sym.Analyzer().can_prove(tirx.Not(is_whole)):
        parts += [values()] if rest else []
    else:
        parts.append(tirx.IfThenElse(is_whole, vectors(whole, count), values() if rest else None))
    return tirx.SeqStmt(parts) if len(parts) > 1 else parts[0]


def terms(statement: Any) -> list[Any]:
    """The terms of the block conditions in a statement."""
    matches: list[Any] = []

    def note(block: Any) -> None:
        pending = [block.predicate]
        while pending:
            term = pending.pop()
            if isinstance(term, tirx.And):
                pending += [term.a, term.b]
            else:
                matches.append(term)

    tvm_ffi.structural_walk(statement, (s_tir.SBlockRealize, note))
    return matches


def conjunction(parts: list[Any]) -> Any:
    condition = tirx.const(True, "bool")
    for term in parts:
        condition = tirx.And(condition, term)
    return tvm.sym.Analyzer().simplify(condition)


def drop_lane_conditions(statement: Any, lane: Any) -> Any:
    """Remove conditions on a lane or a row from a statement's blocks."""

    def rewrite(block: Any) -> Any:
        remaining = [term for term in terms(block) if not uses_variable(term, lane)]
        return s_tir.SBlockRealize(block.iter_values, conjunction(remaining), block.block)

    return tvm_ffi.structural_map(statement, (s_tir.SBlockRealize, rewrite))


def _drop_true_conditions(statement: Any, is_true: Callable[[Any], bool]) -> Any:
    """Remove conditions that are always true from a statement's blocks."""

    def rewrite(block: Any) -> Any:
        if not is_true(block.predicate):
            return block
        return s_tir.SBlockRealize(block.iter_values, tirx.const(True, "bool"), block.block)

    return tvm_ffi.structural_map(statement, (s_tir.SBlockRealize, rewrite))


def uses_variable(expression: Any, variable: Any) -> bool:
    matches: list[Any] = []
    tvm_ffi.structural_walk(
        expression, (tvm.ir.Var, lambda candidate: matches.append(candidate) if candidate.same_as(variable) else None)
    )
    return bool(matches)


def substitute(node: Any, variable: Any, value: Any) -> Any:
    return tvm_ffi.structural_map(
        node, (tvm.ir.Var, lambda candidate: value if candidate.same_as(variable) else candidate)
    )


def like(variable: Any, value: int) -> Any:
    """A constant of a variable's dtype."""
    return tirx.const(value, variable.ty.dtype)
