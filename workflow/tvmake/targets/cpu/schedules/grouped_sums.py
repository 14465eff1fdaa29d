"""Schedule a row's matmul by integer weights: tiles of adjacent results, whose sums over a group are in registers."""

import math
from collections.abc import Sequence
from typing import Any

import tvm

from tvmake.targets.cpu.schedules import loops as rules
from tvmake.targets.cpu.schedules.accesses import extent, is_injective
from tvmake.targets.cpu.schedules.machine import Machine
from tvmake.targets.cpu.schedules.tiled import FEWEST_TILES, WORK_OF_A_THREAD
from tvmake.targets.cpu.schedules.tiles import divisors
from tvmake.targets.weights.prepack import MARK

from tvm.s_tir.dlight import analysis  # isort: skip

PART = "tvmake.grouped_sums"
"""Annotation of a block of such a kernel: which of :data:`PARTS` it computes."""

ROW, ROW_SUMS, GROUPS, RESULTS = PARTS = ("row", "row_sums", "groups", "results")
"""The row in the order and units of 4-bit integers; sums of its values; sums of their products with a group's integers; results.
Kernels of 8-bit integers have no ``row``, and without zero points no ``row_sums``."""

BITS = 32

MOST_VECTORS = 8
"""Maximum vectors of a tile."""

REGISTERS = 4
"""One in this many registers is a sum; the others are for weights, masks, and values of the row."""


def sum_by_groups(
    schedule: Any, unit: Machine, weights: Sequence[Any], choice: int = 0, width: int | None = None
) -> bool:
    """Schedule a whole kernel; False for other kernels.

    Args:
        weights: buffers that may be reordered when the package is built.
        choice: rank of the tile's width, the widest first; the last one if there are fewer.
        width: number of adjacent results of the tile, if the weights have a layout already.
    """
    root = analysis.get_root_block(schedule)
    blocks = schedule.get_child_blocks(root)
    parts = {str(notes[PART]): block for block in blocks if PART in (notes := schedule.get(block).annotations)}
    if RESULTS not in parts or GROUPS not in parts:
        return False
    results, groups = parts[RESULTS], parts[GROUPS]
    outputs = extent(schedule.get(groups).iter_vars[1])
    lanes = unit.lanes(BITS)
    vectors = _vectors(outputs, lanes, unit, choice, width)
    others = [block for block in blocks if PART not in schedule.get(block).annotations]
    epilogue = _epilogue(schedule, others, outputs) if others else schedule.cache_write(results, 0, "global")
    for block in (groups, results):
        _pack(schedule, block, weights, vectors * lanes)
    *units, column, group = schedule.get_loops(results)
    tiles, *inner = schedule.split(column, [None, vectors, lanes])
    schedule.reorder(*units, tiles, group, *inner)
    schedule.reverse_compute_at(epilogue, tiles, preserve_unit_loops=True)
    schedule.compute_at(groups, group, preserve_unit_loops=True)
    if ROW in parts:
        schedule.unroll(schedule.get_loops(parts[ROW])[-1])
    if ROW_SUMS in parts:
        rules.reduction(schedule, parts[ROW_SUMS], unit)
    outer = schedule.fuse(*units, tiles)
    if math.prod(map(extent, schedule.get(groups).iter_vars)) >= WORK_OF_A_THREAD:
        schedule.parallel(outer)
    _finish_results(schedule, results)
    _finish_groups(schedule, groups, vectors, lanes)
    *rows, last = schedule.get_loops(epilogue)[1:]
    _unroll(schedule, [*rows, *schedule.split(last, [None, lanes])])
    return True


def _vectors(outputs: int, lanes: int, unit: Machine, choice: int, width: int | None) -> int:
    """The number of vectors of a tile."""
    candidates = [
        count for count in divisors(outputs // lanes) if count <= min(MOST_VECTORS, unit.registers // REGISTERS)
    ]
    ordered = sorted(candidates, key=lambda count: (outputs // lanes // count < FEWEST_TILES, -count))
    known = [count for count in ordered if count * lanes == width]
    return (known or ordered)[min(choice, len(known or ordered) - 1)]


def _epilogue(schedule: Any, others: Sequence[Any], outputs: int) -> Any:
    """The block that computes one value from each result."""
    (block,) = others
    statement = schedule.get(block)
    extents = [extent(axis) for axis in statement.iter_vars]
    if not is_injective(statement) or extents[-1] != outputs or math.prod(extents) != outputs:
        raise ValueError("what follows computes other values than one of each result")
    return block


def _pack(schedule: Any, block: Any, weights: Sequence[Any], width: int) -> None:
    """Let a tile's weights follow each other in memory, group by group."""
    for number, region in enumerate(schedule.get(block).reads):
        if not any(region.source.same_as(weight) for weight in weights):
            continue
        copy = schedule.cache_read(block, number, "global")
        rank = len(region.region)
        dtype = str(region.region[-1].min.ty.dtype)

        def tiles(*indices: Any) -> list[Any]:
            return [indices[-1] // width, *indices[:-1], indices[-1] % width]

        schedule.transform_layout(copy, ("write", 0), tvm.tirx.IndexMap.from_func(tiles, ndim=rank, index_dtype=dtype))
        schedule.annotate(copy, MARK, ann_val=True)


def _finish_results(schedule: Any, block: Any) -> None:
    loops = schedule.get_loops(block)
    _unroll(schedule, loops[-2:])
    _unroll(schedule, schedule.get_loops(schedule.decompose_reduction(block, loops[-3]))[-2:])


def _finish_groups(schedule: Any, block: Any, vectors: int, lanes: int) -> None:
    """Read each word once for all of its integers."""
    _, _, _, column, *steps = schedule.get_loops(block)
    inner = schedule.split(column, [vectors, lanes])
    steps, numbers = (steps[:-1], steps[-1:]) if len(steps) > 1 else (steps, [])
    schedule.reorder(*steps, inner[0], *numbers, inner[1])
    _unroll(schedule, [inner[0], *numbers, inner[1]])
    _unroll(schedule, schedule.get_loops(schedule.decompose_reduction(block, steps[0]))[-2:])


def _unroll(schedule: Any, loops: Sequence[Any]) -> None:
    """Vectorise the innermost loop and unroll the others, so that their buffers can be registers."""
    *outer, last = loops
    schedule.vectorize(last)
    for loop in outer:
        schedule.unroll(loop)
