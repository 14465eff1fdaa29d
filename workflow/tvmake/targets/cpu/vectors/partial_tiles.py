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
    """The tile's code for each height, chosen by how many rows are left."""
    annotations = {name: value for name, value in loop.annotations.items() if name != TILE}
    row_loops: list[Any] = []
    tvm_ffi.structural_walk(
        loop.body, (tirx.For, lambda inner: row_loops.append(inner) if ROWS in (inner.annotations or {}) else None)
    )
    condition = _row_condition(row_loops[0])
    row, full = row_loops[0].loop_var, int(row_loops[0].extent)
    body = _with_height(loop.body, full, clamps=True)
    for height in reversed(heights):
        is_low = tirx.Not(substitute(condition, row, like(row, height)))
        body = tirx.IfThenElse(is_low, _with_height(loop.body, height, clamps=height > 1), body)
    is_whole = substitute(condition, row, like(row, full - 1))
    body = tirx.IfThenElse(is_whole, _with_height(loop.body, full, clamps=False, is_whole=True), body)
    return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body, annotations=annotations)


def _row_condition(loop: Any) -> Any:
    """Whether there is a row, as the blocks in a loop over rows say it."""
    (condition, *_) = [term for term in terms(loop.body) if uses_variable(term, loop.loop_var)]
    return condition


def _with_height(statement: Any, height: int, clamps: bool, is_whole: bool = False) -> Any:
    """A tile's code for a number of rows.

    Args:
        statement: the code, with loops over all rows of a whole tile.
        height: the number.
        clamps: whether there may be fewer, so that the last row is computed in place of those behind it.
        is_whole: whether all of them are there.
    """

    def change(loop: Any) -> Any:
        if ROWS not in (loop.annotations or {}):
            return loop
        body = loop.body
        if is_whole or not clamps:
            body = drop_lane_conditions(body, loop.loop_var)
        elif int(loop.annotations[ROWS]) == SUMS:
            body = tvm_ffi.structural_map(
                body, (s_tir.SBlockRealize, lambda realize: _clamp_rows(realize, loop.loop_var))
            )
        annotations = {name: value for name, value in loop.annotations.items() if name != ROWS}
        return tirx.For(loop.loop_var, loop.min, like(loop.loop_var, height), loop.kind, body, annotations=annotations)

    return tvm_ffi.structural_map(statement, (tirx.For, change))


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
    clamped = s_tir.SBlock(
        block.iter_vars, block.reads, block.writes, block.name_hint, tirx.BufferStore(own, value, block.body.indices), block.init,
        block.alloc_buffers, block.match_buffers, block.annotations,
    )  # fmt: skip
    return s_tir.SBlockRealize(realize.iter_values, conjunction(kept), clamped)
