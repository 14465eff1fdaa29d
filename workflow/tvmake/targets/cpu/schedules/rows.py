"""Schedule kernels with independent rows, such as softmax and layer norms: a few rows at a time, through all steps."""

import math
from collections.abc import Sequence
from typing import Any

import tvm

from tvmake.targets.cpu.parallel_rows import PARALLEL
from tvmake.targets.cpu.schedules.accesses import SPATIAL, extent, fuse_outer, is_dynamic, is_injective, loads_in
from tvmake.targets.cpu.schedules.loops import PartialResults, lanes_of_sum
from tvmake.targets.cpu.schedules.machine import STACK_BYTES, Machine
from tvmake.targets.cpu.schedules.tiled import WORK_OF_A_THREAD, TiledReduction
from tvmake.targets.cpu.schedules.tiles import divisors
from tvmake.targets.cpu.schedules.vectors import vectorize
from tvmake.targets.cpu.vectors.softmax_reciprocal import SHARES, is_softmax

CHUNKS = (1, 2, 4, 8)
"""Rows that go through all steps at once if their number is dynamic."""

CACHE_BYTES = 1 << 14
"""Size of the rows that go through all steps at once: half of a small first-level cache."""


def schedule_by_rows(schedule: Any, blocks: Sequence[Any], machine: Machine) -> bool:
    """Schedule all blocks of a kernel together; False, with the schedule unchanged, if they do not compute row by row.

    One pass over memory and one parallel region replace one of each per block.
    """
    statements = [schedule.get(block) for block in blocks]
    rows = _rows(schedule, blocks, machine)
    if rows is None:
        return False
    count = math.prod(rows)
    longest = max(math.prod(map(extent, statement.iter_vars)) for statement in statements) // count
    widest = max(machine.bits(statement.body.buffer) for statement in statements) // 8
    last = list(statements[0].iter_vars)[len(rows) - 1]
    chunk_sizes = CHUNKS if is_dynamic(last) else divisors(rows[-1])
    chunk = max(number for number in chunk_sizes if number == 1 or number * longest * widest <= CACHE_BYTES)
    has_rows_between = any(
        is_injective(statement) and len(statement.iter_vars) > len(rows) for statement in statements[:-1]
    )
    if chunk == 1 and has_rows_between and longest * widest >= STACK_BYTES:
        return False  # the memory for these rows would be allocated for each row
    merged: list[Any] = []
    for block, statement in zip(blocks, statements, strict=True):
        loops = schedule.get_loops(block)
        chunks, within = schedule.split(loops[len(rows) - 1], [None, chunk])
        outer = fuse_outer(schedule, [*loops[: len(rows) - 1], chunks])
        if not is_injective(statement):
            lanes = lanes_of_sum(statement, machine)
            partial = PartialResults(schedule, block, loops[len(rows) :], lanes, [outer, within])
            partial.finish()
            outer = partial.outer
        elif len(loops) > len(rows):
            vectorize(schedule, loops[-1], machine, statement.body.buffer)
        merged.append(outer)
    if is_softmax(statements[-1], statements[:-1]):
        schedule.annotate(blocks[-1], SHARES, ann_val=True)
    all_rows = schedule.merge(*merged)
    if count * longest * len(statements) >= WORK_OF_A_THREAD:
        schedule.annotate(all_rows, PARALLEL, ann_val=True)
    return True


def _rows(schedule: Any, blocks: Sequence[Any], machine: Machine) -> list[int] | None:
    """The extents of the leading axes that all blocks share and along which rows are independent, or None."""
    statements = [schedule.get(block) for block in blocks]
    sums = [statement for statement in statements if not is_injective(statement)]
    if not sums or len(statements) < 2 or not is_injective(statements[-1]):
        return None
    for block, statement in zip(blocks, statements, strict=True):
        if not isinstance(statement.body, tvm.tirx.BufferStore):
            return None
        if len(schedule.get_loops(block)) != len(statement.iter_vars):
            return None
        if not is_injective(statement) and (
            TiledReduction.suits(schedule, block) or lanes_of_sum(statement, machine) == 1
        ):
            return None
    rows = [extent(axis) for axis in sums[0].iter_vars if axis.iter_type == SPATIAL]
    written = [statement.body.buffer for statement in statements]
    return rows if rows and all(_is_row_wise(statement, rows, written) for statement in statements) else None


def _is_row_wise(statement: Any, rows: list[int], written: list[Any]) -> bool:
    """Whether a block begins with the rows' axes, and accesses the blocks' buffers at the same rows."""
    axes = list(statement.iter_vars)[: len(rows)]
    spatial = sum(axis.iter_type == SPATIAL for axis in statement.iter_vars)
    if [extent(axis) for axis in axes] != rows or any(axis.iter_type != SPATIAL for axis in axes):
        return False
    if not is_injective(statement) and spatial != len(rows):
        return False
    loads = [load for load in loads_in(statement.body) if any(load.source.same_as(buffer) for buffer in written)]
    # No block reads the last block's result.
    stores = [] if statement.body.buffer.same_as(written[-1]) else [statement.body.indices]
    return all(
        len(access) >= len(rows) and all(index.same_as(axis.var) for index, axis in zip(access, axes, strict=False))
        for access in (*stores, *(load.indices for load in loads))
    )
