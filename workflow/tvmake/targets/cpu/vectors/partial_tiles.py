"""Tiles of a dynamic number of rows, or of lanes, of which the last is partial.

A whole tile asks for nothing. One with few rows left computes fewer: a kernel has the code of two or three heights. Between these, rows
behind the last one are computed from what the last one reads, and not stored, so that a step of the sum has no condition.
"""

from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi

from tvmake.targets.cpu.vectors.incomplete_vectors import (
    conjunction,
    drop_lane_conditions,
    like,
    substitute,
    terms,
    uses_variable,
)

from tvm import s_tir, tirx  # isort: skip

TILE = "tvmake.tile"
"""On the innermost loop around a tile with a dynamic number of rows: the heights of which there is code besides the tile's own."""

ROWS = "tvmake.tile_rows"
"""On each loop over the rows of such a tile: :data:`SUMS` or :data:`RESULTS`."""

SUMS, RESULTS = 1, 0
"""What a loop over rows computes: sums, which may go on behind the last row, or results, which are stored."""

LANES = "tvmake.tile_lanes"
"""On a loop over lanes of which the last ones may be behind the end of a dynamic dimension."""


@tirx.transform.prim_func_pass(opt_level=0, name="PartialTiles")
class PartialTiles:
    """Write loops with :data:`TILE` as a tile of each height, and those with :data:`LANES` as whole vectors or single values."""

    def transform_function(self, func: Any, _module: Any, _context: Any) -> Any:
        """The function with such loops divided; one without any unchanged."""
        body = tvm_ffi.structural_map(func.body, (tirx.For, _divide))
        return func if body.same_as(func.body) else func.with_body(body)


def _divide(loop: Any) -> Any:
    annotations = loop.annotations or {}
    if TILE in annotations:
        return _divide_tile(loop, sorted(int(height) for height in annotations[TILE]))
    return _divide_lanes(loop) if LANES in annotations else loop


def _divide_lanes(lanes: Any) -> Any:
    """A whole vector, or single values where it would go beyond the end."""
    condition = conjunction([term for term in terms(lanes) if uses_variable(term, lanes.loop_var)])
    is_whole = substitute(condition, lanes.loop_var, like(lanes.loop_var, int(lanes.extent) - 1))
    vector = tirx.For(
        lanes.loop_var, lanes.min, lanes.extent, lanes.kind, drop_lane_conditions(lanes.body, lanes.loop_var)
    )
    values = tirx.For(lanes.loop_var, lanes.min, lanes.extent, tirx.ForKind.SERIAL, lanes.body)
    return tirx.IfThenElse(is_whole, vector, values)


def _divide_tile(loop: Any, heights: Sequence[int]) -> Any:
    """The tile's code for all of its rows, and for as many of fewer rows as are left."""
    annotations = {name: value for name, value in loop.annotations.items() if name != TILE}
    row_loops: list[Any] = []
    tvm_ffi.structural_walk(
        loop.body, (tirx.For, lambda inner: row_loops.append(inner) if ROWS in (inner.annotations or {}) else None)
    )
    row, full = row_loops[0].loop_var, int(row_loops[0].extent)
    condition = _row_condition(row_loops[0])
    left = condition.b - substitute(condition.a, row, like(row, 0)) + int(isinstance(condition, tirx.LE))
    *lower, highest = heights
    sums = _sum_buffers(row_loops)
    part = tirx.Var("part", row.ty.dtype)
    count = tirx.floordiv(left + (highest - 1), like(row, highest))
    body = tirx.For(
        part, like(part, 0), count, tirx.ForKind.SERIAL, _compute_part(loop.body, highest, sums, part * highest)
    )
    for height in reversed(lower):
        body = tirx.IfThenElse(left <= height, _compute_part(loop.body, height, sums), body)
    body = tirx.IfThenElse(left >= full, _compute_whole(loop.body), body)
    return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body, annotations=annotations)


def _row_condition(loop: Any) -> Any:
    """Whether there is a row, as the blocks in a loop over rows say it: the row is less than a number."""
    (condition, *_) = [term for term in terms(loop.body) if uses_variable(term, loop.loop_var)]
    assert isinstance(condition, tirx.LT | tirx.LE), condition
    return condition


def _compute_whole(statement: Any) -> Any:
    """A tile's code without conditions on its rows."""

    def change(loop: Any) -> Any:
        if ROWS not in (loop.annotations or {}):
            return loop
        return _with_rows(loop, int(loop.extent), drop_lane_conditions(loop.body, loop.loop_var))

    return tvm_ffi.structural_map(statement, (tirx.For, change))


def _sum_buffers(row_loops: Sequence[Any]) -> set[Any]:
    """The buffers that a tile's sums are in."""
    blocks: list[Any] = []
    for loop in row_loops:
        if int(loop.annotations[ROWS]) == SUMS:
            tvm_ffi.structural_walk(loop.body, (s_tir.SBlock, blocks.append))
    return {region.source for block in blocks for region in block.writes}


def _compute_part(statement: Any, height: int, sums: set[Any], first: Any | None = None) -> Any:
    """A tile's code for some of its rows; those behind the last one are computed as the last one, and not stored.

    Args:
        statement: the code, with loops over all rows of a whole tile.
        height: how many rows to compute.
        sums: the buffers of the tile's sums.
        first: the first of them, None for the tile's first.
    """

    def change(loop: Any) -> Any:
        if ROWS not in (loop.annotations or {}):
            return loop
        is_sum = int(loop.annotations[ROWS]) == SUMS
        body = loop.body if first is None else _move_rows(loop.body, loop.loop_var, first, sums)
        if height == 1 and first is None:
            body = drop_lane_conditions(body, loop.loop_var)
        elif is_sum:
            body = tvm_ffi.structural_map(
                body, (s_tir.SBlockRealize, lambda realize: _clamp_rows(realize, loop.loop_var))
            )
        return _with_rows(loop, height, body)

    return tvm_ffi.structural_map(statement, (tirx.For, change))


def _with_rows(loop: Any, height: int, body: Any) -> Any:
    annotations = {name: value for name, value in loop.annotations.items() if name != ROWS}
    return tirx.For(loop.loop_var, loop.min, like(loop.loop_var, height), loop.kind, body, annotations=annotations)


def _move_rows(statement: Any, row: Any, first: Any, sums: set[Any]) -> Any:
    """Blocks of a tile's rows from another one on, which keep their sums where the tile's first rows have theirs."""

    def move(realize: Any) -> Any:
        block = realize.block
        values = zip(block.iter_vars, realize.iter_values, strict=True)
        unmoved = {axis.var: value for axis, value in values if uses_variable(value, row)}

        def back(index: Any) -> Any:
            return tvm_ffi.structural_map(index, (tvm.ir.Var, lambda variable: unmoved.get(variable, variable)))

        def load(node: Any) -> Any:
            return tirx.BufferLoad(node.source, list(map(back, node.indices))) if node.source in sums else node

        def store(node: Any) -> Any:
            value = tvm_ffi.structural_map(node.value, (tvm.ir.TensorLoad, load))
            indices = list(map(back, node.indices)) if node.buffer in sums else node.indices
            return tirx.BufferStore(node.buffer, value, indices)

        def view(match: Any) -> Any:
            if match.source.source not in sums:
                return match
            region = [tvm.ir.Range.from_min_extent(back(part.min), part.extent) for part in match.source.region]
            return s_tir.MatchBufferRegion(match.buffer, tirx.BufferRegion(match.source.source, region))

        body = tvm_ffi.structural_map(block.body, (tirx.BufferStore, store))
        rows = [substitute(value, row, row + first) for value in realize.iter_values]
        return s_tir.SBlockRealize(
            rows,
            substitute(realize.predicate, row, row + first),
            _with_body(block, body, list(map(view, block.match_buffers))),
        )

    return tvm_ffi.structural_map(statement, (s_tir.SBlockRealize, move))


def _clamp_rows(realize: Any, row: Any) -> Any:
    """A block of a sum without its condition on the row: what it reads is the last row's where there is no such row."""
    block = realize.block
    if not isinstance(block.body, tirx.BufferStore):  # an instruction
        return realize
    kept = [term for term in terms(realize) if not uses_variable(term, row)]
    own = block.body.buffer
    axes = [axis for axis, value in zip(block.iter_vars, realize.iter_values, strict=True) if uses_variable(value, row)]

    def clamp(load: Any) -> Any:
        if load.source.same_as(own):
            return load
        indices = list(load.indices)
        for axis in axes:
            last = tirx.min(axis.var, axis.dom.extent - 1)
            indices = [substitute(index, axis.var, last) for index in indices]
        return tirx.BufferLoad(load.source, indices)

    value = tvm_ffi.structural_map(block.body.value, (tvm.ir.TensorLoad, clamp))
    clamped = _with_body(block, tirx.BufferStore(own, value, block.body.indices))
    return s_tir.SBlockRealize(realize.iter_values, conjunction(kept), clamped)


def _with_body(block: Any, body: Any, views: Sequence[Any] | None = None) -> Any:
    return s_tir.SBlock(
        block.iter_vars, block.reads, block.writes, block.name_hint, body, block.init, block.alloc_buffers,
        block.match_buffers if views is None else views, block.annotations,
    )  # fmt: skip
