"""Fuse a reduction's prologue and epilogue into its kernel."""

import contextlib
import operator
from collections.abc import Sequence
from functools import reduce
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.dimensions import is_known
from tvmake.targets.cpu.schedules.accesses import uses

from tvm import tirx  # isort: skip
from tvm.s_tir.dlight import analysis  # isort: skip

SAMPLE = 97
"""A size of dynamic dimensions, more than the padding of incomplete tiles adds."""


def inline_producers(schedule: Any, block: Any) -> None:
    """Inline everything that a block reads.

    Raises:
        ScheduleError: a producer cannot be inlined.
    """
    while producers := schedule.get_producers(block):
        for producer in producers:
            schedule.compute_inline(producer)


def inline_consumers(schedule: Any, written: Any) -> None:
    """Fuse the consumers of a block that writes values from registers into it.

    Raises:
        ScheduleError: the consumers are not one element-wise chain.
        ValueError: the block has several consumers, or one that reads a result repeatedly.
    """
    while consumers := schedule.get_consumers(written):
        if len(consumers) != 1:
            raise ValueError("a result with several uses")
        (consumer,) = consumers
        if _is_repeated(schedule, written, consumer):
            raise ValueError("a result that is read repeatedly")
        for producer in schedule.get_producers(consumer):
            if not schedule.get(producer).same_as(schedule.get(written)):
                inline_producers(schedule, producer)
                schedule.compute_inline(producer)
        schedule.reverse_compute_inline(consumer)


def _is_repeated(schedule: Any, written: Any, consumer: Any) -> bool:
    """Whether a consumer with dynamic dimensions has more elements than the results that it reads.

    TVM refuses to inline it only with static dimensions. Repair: `repeated-results`.
    """
    extents = [axis.dom.extent for axis in schedule.get(consumer).iter_vars]
    if all(map(is_known, extents)):
        return False
    return _sample_count(extents) > _sample_count(schedule.get(written).writes[0].source.shape)


def _sample_count(sizes: Sequence[Any]) -> int:
    """The product of sizes if each dynamic dimension is large."""
    count = reduce(operator.mul, sizes)
    sample = tvm_ffi.structural_map(count, (tvm.ir.Var, lambda variable: tirx.const(SAMPLE, variable.ty.dtype)))
    return int(tvm.sym.Analyzer().simplify(sample))


def repeated_axes(schedule: Any, block: Any, consumer: Any) -> list[Any]:
    """The axes along which a consumer of a block reads the same result repeatedly."""
    indices = read_indices(schedule, block, consumer)
    return [axis for axis in schedule.get(consumer).iter_vars if not is_unit(axis) and not uses(indices, axis)]


def read_indices(schedule: Any, block: Any, consumer: Any) -> list[Any]:
    """The indices at which a consumer reads a block's result."""
    result = schedule.get(block).writes[0].source
    return [
        part.min for region in schedule.get(consumer).reads if region.source.same_as(result) for part in region.region
    ]


def is_unit(axis: Any) -> bool:
    """Whether an axis has a single value."""
    return is_known(axis.dom.extent) and int(axis.dom.extent) == 1


def inline_epilogues(func: Any) -> Any:
    """A kernel whose element-wise blocks after its reduction are joined to one block."""
    if not isinstance(func, tvm.tirx.PrimFunc):
        return func
    schedule = tvm.s_tir.Schedule(func)
    join_epilogues(schedule)
    return schedule.mod["main"]


def join_epilogues(schedule: Any) -> None:
    """Like :func:`inline_epilogues`, for a schedule and its trace."""
    blocks = schedule.get_child_blocks(analysis.get_root_block(schedule))
    reductions = [
        position for position, block in enumerate(blocks) if analysis.get_sblock_info(schedule, block).is_reduction()
    ]
    for block in blocks[reductions[-1] + 1 : -1] if reductions else []:
        with contextlib.suppress(tvm.s_tir.ScheduleError):
            schedule.compute_inline(block)
