"""Split tiles with a dynamic number of rows or lanes into whole tiles and a partial last tile.

Whole tiles have no conditions. Remaining rows are computed in tiles of a lower height, for which a kernel has separate
code. Rows beyond the last one read the last row's inputs and are not stored, so steps of the sum have no condition.
There is no code for single rows: their few sums wait for each other, so one row takes as long as three.
"""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.rewriting import map_body
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
"""Annotation of the innermost loop around a tile with a dynamic number of rows: the lower height that also has code."""

ROWS = "tvmake.tile_rows"
"""Annotation of each loop over the rows of such a tile: :data:`SUMS` or :data:`RESULTS`."""

SUMS, RESULTS = 1, 0
"""What a loop over rows computes: sums, which may continue beyond the last row, or results, which are stored."""

LANES = "tvmake.tile_lanes"
"""Annotation of a loop over lanes that may exceed a dynamic dimension: how the excess lanes are handled,
:data:`SINGLE`, :data:`REPEATED` or :data:`ADDED`."""

SINGLE = 0
"""The remaining values are computed one by one."""

REPEATED = 1
"""The vector starts earlier, and recomputes some values."""

ADDED = 2
"""The vector starts earlier, and adds only new values to the partial sums."""


@tirx.transform.prim_func_pass(opt_level=0, name="PartialTiles")
def split_partial_tiles(func: Any, _module: Any, _context: Any) -> Any:
    """Split loops with :data:`TILE` into tiles of both heights, loops with :data:`LANES` into vectors or values."""
    arguments = set(func.params)

    def divide(loop: Any) -> Any:
        annotations = loop.annotations or {}
        if TILE in annotations:
            return _divide_tile(loop, int(annotations[TILE]))
        return _divide_lanes(loop, int(annotations[LANES]), arguments) if LANES in annotations else loop

    return map_body(func, (tirx.For, divide))


def _divide_lanes(lanes: Any, kind: int, arguments: Collection[Any]) -> Any:
    """A vector, and its replacement if it exceeds the dimension: the last whole vector, or single values.

    Args:
        kind: how the excess lanes are handled.
    """
    variable, length = lanes.loop_var, int(lanes.extent)
    conditions = [term for term in terms(lanes) if uses_variable(term, variable)]
    body = drop_lane_conditions(lanes.body, variable)
    vector = tirx.For(variable, lanes.min, lanes.extent, lanes.kind, body)
    values = tirx.For(variable, lanes.min, lanes.extent, tirx.ForKind.SERIAL, lanes.body)
    is_whole = substitute(conjunction(conditions), variable, like(variable, length - 1))
    # TVM may store an internal result over its input, which must then be read only once.
    is_single = kind == SINGLE or (kind == REPEATED and not _writes_arguments(lanes, arguments))
    if is_single or len(conditions) != 1 or not isinstance(conditions[0], tirx.LT):
        return tirx.IfThenElse(is_whole, vector, values)
    end = conditions[0].b
    beyond = substitute(conditions[0].a, variable, like(variable, length)) - end
    if kind == REPEATED:
        first = tirx.max(beyond, like(variable, 0))
        repeated = tirx.For(variable, lanes.min, lanes.extent, lanes.kind, substitute(body, variable, variable - first))
        return tirx.IfThenElse(end >= length, repeated, values)
    add = partial(_add_excess, lane=variable, beyond=beyond)
    added = tvm_ffi.structural_map(body, (s_tir.SBlockRealize, add))
    last = tirx.For(variable, lanes.min, lanes.extent, lanes.kind, added)
    return tirx.IfThenElse(is_whole, vector, tirx.IfThenElse(end >= length, last, values))


def _writes_arguments(statement: Any, arguments: Collection[Any]) -> bool:
    """Whether a statement writes only a kernel's arguments."""
    stores: list[Any] = []
    tvm_ffi.structural_walk(statement, (tirx.BufferStore, stores.append))
    return all(store.buffer in arguments for store in stores)


def _add_excess(realize: Any, lane: Any, beyond: Any) -> Any:
    """A block of partial sums that reads the last whole vector, and adds only values not added before."""
    block, store = realize.block, realize.block.body
    bound = zip(block.iter_vars, realize.iter_values, strict=True)
    shifted = {axis.var: substitute(value, lane, lane - beyond) for axis, value in bound if uses_variable(value, lane)}

    def move(load: Any) -> Any:
        if load.source.same_as(store.buffer):
            return load
        indices = [
            tvm_ffi.structural_map(index, (tvm.ir.Var, lambda variable: shifted.get(variable, variable)))
            for index in load.indices
        ]
        return tirx.BufferLoad(load.source, indices)

    value = tvm_ffi.structural_map(store.value, (tvm.ir.TensorLoad, move))
    unchanged = tirx.BufferLoad(store.buffer, store.indices)
    added = tirx.BufferStore(store.buffer, tirx.Select(lane >= beyond, value, unchanged), store.indices)
    return s_tir.SBlockRealize(realize.iter_values, realize.predicate, _with_body(block, added))


def _divide_tile(loop: Any, lower: int) -> Any:
    """The tile's code for all its rows, and for the remaining rows in tiles of a lower height."""
    annotations = {name: value for name, value in loop.annotations.items() if name != TILE}
    row_loops: list[Any] = []
    tvm_ffi.structural_walk(
        loop.body, (tirx.For, lambda inner: row_loops.append(inner) if ROWS in (inner.annotations or {}) else None)
    )
    row_conditions = [found for found in map(_row_condition, row_loops) if found is not None]
    if not row_conditions:  # the number of rows is a multiple of the tile's
        whole = _compute_whole(loop.body)
        return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, whole, annotations=annotations)
    row, condition = row_conditions[0]
    full = int(row_loops[0].extent)
    left = condition.b - substitute(condition.a, row, like(row, 0)) + int(isinstance(condition, tirx.LE))
    part = tirx.Var("part", row.ty.dtype)
    count = tirx.floordiv(left + (lower - 1), like(row, lower))
    rest = _compute_part(loop.body, lower, left, _sum_buffers(row_loops), part * lower)
    body = tirx.IfThenElse(
        left >= full,
        _compute_whole(loop.body),
        tirx.For(part, like(part, 0), count, tirx.ForKind.SERIAL, rest),
    )
    return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body, annotations=annotations)


def _row_condition(loop: Any) -> tuple[Any, Any] | None:
    """A loop's variable and its condition for valid rows; None if its blocks have none."""
    conditions = [term for term in terms(loop.body) if uses_variable(term, loop.loop_var)]
    return (loop.loop_var, conditions[0]) if conditions else None


def _compute_whole(statement: Any) -> Any:
    """A tile's code without conditions on its rows."""

    def change(loop: Any) -> Any:
        if ROWS not in (loop.annotations or {}):
            return loop
        return _with_rows(loop, int(loop.extent), drop_lane_conditions(loop.body, loop.loop_var))

    return tvm_ffi.structural_map(statement, (tirx.For, change))


def _sum_buffers(row_loops: Sequence[Any]) -> set[Any]:
    """The buffers of a tile's sums."""
    blocks: list[Any] = []
    for loop in row_loops:
        if int(loop.annotations[ROWS]) == SUMS:
            tvm_ffi.structural_walk(loop.body, (s_tir.SBlock, blocks.append))
    return {region.source for block in blocks for region in block.writes}


def _compute_part(statement: Any, height: int, left: Any, sums: set[Any], first: Any) -> Any:
    """A tile's code for some of its rows; rows beyond the last one are computed like the last one, and not stored.

    Args:
        statement: the code, with loops over all rows of a whole tile.
        height: number of rows to compute.
        left: number of rows from the tile's first row on.
        sums: the buffers of the tile's sums.
        first: the first of the rows.
    """

    def change(loop: Any) -> Any:
        if ROWS not in (loop.annotations or {}):
            return loop
        row, is_sum = loop.loop_var, int(loop.annotations[ROWS]) == SUMS
        body = drop_lane_conditions(loop.body, row) if is_sum else loop.body
        value = tirx.min(row + first, left - 1) if is_sum else row + first
        move = partial(_move_rows, row=row, value=value, sums=sums)
        return _with_rows(loop, height, tvm_ffi.structural_map(body, (s_tir.SBlockRealize, move)))

    return tvm_ffi.structural_map(statement, (tirx.For, change))


def _with_rows(loop: Any, height: int, body: Any) -> Any:
    annotations = {name: value for name, value in loop.annotations.items() if name != ROWS}
    return tirx.For(loop.loop_var, loop.min, like(loop.loop_var, height), loop.kind, body, annotations=annotations)


def _move_rows(realize: Any, row: Any, value: Any, sums: set[Any]) -> Any:
    """A block that computes another row of a tile, without moving its sums."""
    block = realize.block
    bound = zip(block.iter_vars, realize.iter_values, strict=True)
    unmoved = {axis.var: position for axis, position in bound if uses_variable(position, row)}

    def stay(index: Any) -> Any:
        return tvm_ffi.structural_map(index, (tvm.ir.Var, lambda variable: unmoved.get(variable, variable)))

    def load(node: Any) -> Any:
        return tirx.BufferLoad(node.source, list(map(stay, node.indices))) if node.source in sums else node

    def store(node: Any) -> Any:
        stored = tvm_ffi.structural_map(node.value, (tvm.ir.TensorLoad, load))
        indices = list(map(stay, node.indices)) if node.buffer in sums else node.indices
        return tirx.BufferStore(node.buffer, stored, indices)

    body = tvm_ffi.structural_map(block.body, (tirx.BufferStore, store))
    views: list[Any] = []
    names: dict[Any, Any] = {}
    for view in block.match_buffers:
        region = view.source.region
        if view.source.source in sums:
            region = [tvm.ir.Range.from_min_extent(stay(part.min), part.extent) for part in region]
        # A function may define a view only once, but contains the tile's code several times.
        old = view.buffer
        offset = tirx.Var(f"{old.name}_offset", old.elem_offset.ty.dtype)
        new = tirx.decl_buffer(
            old.shape,
            old.dtype,
            old.name,
            strides=old.strides,
            elem_offset=offset,
            offset_factor=old.offset_factor,
            layout=None,
        )
        names |= {old: new, old.elem_offset: offset}
        views.append(s_tir.MatchBufferRegion(new, tirx.BufferRegion(view.source.source, region)))
    if names:
        body = tvm_ffi.structural_map(body, (tvm.ir.Var, lambda variable: names.get(variable, variable)))
    values = [substitute(position, row, value) for position in realize.iter_values]
    return s_tir.SBlockRealize(values, substitute(realize.predicate, row, value), _with_body(block, body, views))


def _with_body(block: Any, body: Any, views: Sequence[Any] | None = None) -> Any:
    return s_tir.SBlock(
        block.iter_vars, block.reads, block.writes, block.name_hint, body, block.init, block.alloc_buffers,
        block.match_buffers if views is None else views, block.annotations,
    )  # fmt: skip
