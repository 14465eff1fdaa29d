"""Schedule Winograd convolutions in strips of tiles, so that intermediate values stay in the cache."""

import math
from collections.abc import Sequence
from typing import Any

from tvmake.targets.cpu.schedules.accesses import (
    SPATIAL,
    Contraction,
    contraction,
    extent,
    fuse_outer,
    is_dynamic,
    is_injective,
)
from tvmake.targets.cpu.schedules.machine import Machine
from tvmake.targets.cpu.schedules.packing import pack
from tvmake.targets.cpu.schedules.tiled import MOST_DYNAMIC_ROWS
from tvmake.targets.cpu.schedules.tiles import Rows, Tile, divisors, good_tiles
from tvmake.targets.cpu.vectors.partial_tiles import RESULTS as STORED
from tvmake.targets.cpu.vectors.partial_tiles import ROWS, SUMS, TILE
from tvmake.targets.cpu.winograd import PART, PARTS, RESULTS

from tvm.s_tir.dlight import analysis  # isort: skip

LONGEST, SHORTEST = 16, 6
"""Tiles of a strip, if they divide the width of the image."""

BITS = 32


def winograd(schedule: Any, unit: Machine, weights: Sequence[Any], choice: int = 0, width: int | None = None) -> bool:
    """Schedule a whole Winograd kernel; False for other kernels.

    Args:
        weights: buffers that may be reordered when the package is built.
        choice: rank of the matmuls' tile among the good ones; the last one if there are fewer.
        width: number of adjacent results of that tile, if the weights have a layout already.
    """
    root = analysis.get_root_block(schedule)
    parts = {
        str(annotations[PART]): block
        for block in schedule.get_child_blocks(root)
        if PART in (annotations := schedule.get(block).annotations)
    }
    if set(parts) != set(PARTS):
        return False
    last = _epilogue(schedule, root, parts)
    products = schedule.get(parts["products"])
    *_, across, filters = [axis for axis in products.iter_vars if axis.iter_type == SPATIAL]
    # A strip is a whole row of tiles if their number is dynamic.
    strip = None if is_dynamic(across) else _strip(extent(across))
    reduction = contraction(products)
    assert reduction is not None
    length = extent(reduction.reduced[0])
    tallest = MOST_DYNAMIC_ROWS if strip is None else None
    rows = Rows(list(products.iter_vars).index(across), strip or extent(across), shares=True, tallest=tallest)
    tiles_by_time = good_tiles(unit, BITS, extent(filters), [rows], length, 1, whole_only=True, required=width)
    tile = tiles_by_time[min(choice, len(tiles_by_time) - 1)]
    _pack(schedule, parts["products"], reduction, weights, tile)
    # Conditions on dynamic dimensions for each value at 36 positions take TVM seconds.
    is_padded_first = any(map(is_dynamic, list(schedule.get(parts["padded"]).iter_vars)[1:]))
    if not is_padded_first:
        schedule.compute_inline(parts["padded"])
    n, y, x, k = schedule.get_loops(last)
    down, inner_y = schedule.split(y, [None, RESULTS])
    tiles, inner_x = schedule.split(x, [None, RESULTS])
    strips, within = schedule.split(tiles, [None, strip]) if strip else (None, tiles)
    vectors, lane = schedule.split(k, [None, _lanes(unit, extent(filters))])
    outer = [n, down, strips] if strips is not None else [n, down]
    schedule.reorder(*outer, within, vectors, inner_y, inner_x, lane)
    strip_loop = fuse_outer(schedule, outer)
    schedule.parallel(strip_loop)
    for name in ("tiles", "result_rows"):
        schedule.compute_at(parts[name], vectors, preserve_unit_loops=True)
    for name in ("products", "data"):
        schedule.compute_at(parts[name], strip_loop, preserve_unit_loops=True)
    for block in (parts["tiles"], parts["result_rows"], last):
        _write_out(schedule, schedule.get_loops(block)[3:])
    _data(schedule, parts, _lanes(unit, length))
    if is_padded_first:
        schedule.compute_at(parts["padded"], strip_loop, preserve_unit_loops=True)
        _, lane = schedule.split(schedule.get_loops(parts["padded"])[-1], [None, _lanes(unit, length)])
        schedule.vectorize(lane)
    if strip is None:
        _products_of_rows(schedule, parts["products"], tile)
    else:
        _products(schedule, parts["products"], tile)
    return True


def _epilogue(schedule: Any, root: Any, parts: dict[str, Any]) -> Any:
    """The block that writes the results, with the epilogue inlined."""
    results = parts["results"]
    shape = [extent(axis) for axis in schedule.get(results).iter_vars]
    others = [block for block in schedule.get_child_blocks(root) if PART not in schedule.get(block).annotations]
    if not others:
        return results
    *between, last = others
    for block in (results, *between):
        schedule.compute_inline(block)
    statement = schedule.get(last)
    if not is_injective(statement) or [extent(axis) for axis in statement.iter_vars] != shape:
        raise ValueError("what follows writes in another order")
    return last


def _lanes(unit: Machine, channels: int) -> int:
    """Lanes of the vectors of channels: whole vectors, or halves."""
    return math.gcd(unit.lanes(BITS), channels)


def _strip(tiles: int) -> int:
    """Number of tiles of a row that go through all steps at once."""
    longest = max(divisor for divisor in divisors(tiles) if divisor <= LONGEST)
    return longest if longest >= SHORTEST else tiles


def _pack(schedule: Any, block: Any, reduction: Contraction, weights: Sequence[Any], tile: Tile) -> None:
    for load in reduction.operands:
        if any(load.source.same_as(weight) for weight in weights):
            pack(schedule, block, reduction, load, tile.width, is_weight=True)


def _products(schedule: Any, block: Any, tile: Tile) -> None:
    _, *loops = schedule.get_loops(block)
    i, j, n, down, across, filters, channel = loops
    outer, vectors, lanes = schedule.split(filters, [None, tile.vectors, tile.lanes])
    tiles, rows = schedule.split(across, [None, tile.height])
    schedule.reorder(i, j, n, down, outer, tiles, channel, rows, vectors, lanes)
    _write_out(schedule, schedule.get_loops(block)[-3:])
    zeros = schedule.decompose_reduction(block, channel)
    _write_out(schedule, schedule.get_loops(zeros)[-3:])


def _products_of_rows(schedule: Any, block: Any, tile: Tile) -> None:
    """Like :func:`_products`, for a dynamic number of adjacent tiles: the last tiles have separate code."""
    height = tile.height
    results = schedule.cache_write(block, 0, "global")
    _, *loops = schedule.get_loops(block)[-8:]
    i, j, n, down, across, filters, channel = loops
    outer, vectors, lanes = schedule.split(filters, [None, tile.vectors, tile.lanes])
    tiles, rows = schedule.split(across, [None, height])
    schedule.reorder(i, j, n, down, outer, tiles, channel, rows, vectors, lanes)
    schedule.reverse_compute_at(results, tiles, preserve_unit_loops=True)
    schedule.transform_layout(
        block,
        ("write", 0),
        lambda i, j, n, down, across, filter: [i, j, n, down, across // height, across % height, filter],
        assume_injective_transform=True,
    )
    if height > 1:
        schedule.annotate(tiles, TILE, ann_val=-(-height // 2))
    *_, last = schedule.get_loops(results)
    vectors, lanes = schedule.split(last, [None, tile.lanes])
    inside = len(schedule.get_loops(results)) - len(schedule.get_loops(block)) + 4

    def write_out(part: Any, kind: int, count: int) -> None:
        loops = schedule.get_loops(part)[-count:]
        rows = [loop for loop in loops[:-1] if int(schedule.get(loop).extent) == height > 1]
        if rows:
            schedule.annotate(rows[0], ROWS, ann_val=kind)
        _write_out(schedule, loops)

    write_out(results, STORED, inside)
    write_out(block, SUMS, 3)
    write_out(schedule.decompose_reduction(block, channel), SUMS, 3)


def _data(schedule: Any, parts: dict[str, Any], lanes: int) -> None:
    _, i, j, n, down, across, channels = schedule.get_loops(parts["data"])
    vectors, lane = schedule.split(channels, [None, lanes])
    schedule.reorder(n, down, across, vectors, i, j, lane)
    schedule.compute_at(parts["data_rows"], vectors, preserve_unit_loops=True)
    outside = len(schedule.get_loops(parts["data"])) - 3
    for name in ("data", "data_rows"):
        _write_out(schedule, schedule.get_loops(parts[name])[outside:])


def _write_out(schedule: Any, loops: Sequence[Any]) -> None:
    """Vectorise the innermost loop and unroll the others, so that their buffers can be registers."""
    *outer, lanes = loops
    schedule.vectorize(lanes)
    for loop in outer:
        schedule.unroll(loop)
