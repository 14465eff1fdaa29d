"""Operands in the order in which a contraction reads them."""

from typing import Any

import tvm

from tvmake.ir.expressions import dtype_name
from tvmake.targets.cpu.schedules.accesses import Contraction, extent, fuse_outer, is_contiguous, is_dynamic
from tvmake.targets.cpu.vectors.partial_tiles import LANES, SINGLE
from tvmake.targets.weights.prepack import MARK


def pack(
    schedule: Any,
    block: Any,
    taken: Contraction,
    load: Any,
    width: int,
    is_weight: bool,
    neighbours: Any | None = None,
    group: int = 1,
) -> None:
    """Let a contraction read ``width`` values along its lane axis side by side, and then those of the next product.

    Weights are copied once, when the package is built (``targets.prepack``), with zeros where the last tile has less; of other
    operands the kernel makes a copy, which is worth it where its lanes do not lie side by side already. What cannot be reordered
    stays as it is.

    Args:
        schedule: of the kernel.
        block: the contraction's in it.
        taken: the contraction.
        load: the operand.
        width: of the tile.
        is_weight: whether the operand is a weight.
        neighbours: an axis of the sum, of which each lane has ``group`` values side by side.
        group: how many of them a step multiplies.
    """
    axis = taken.lane_axis
    places = _places(load, axis)
    if not can_pack(load, axis):
        return
    is_whole = not is_dynamic(axis) and extent(axis) % width == 0
    if not is_weight and is_contiguous(load, axis) and is_whole:
        return
    (place,) = places
    rank = len(load.indices)
    (read,) = [number for number, region in enumerate(taken.block.reads) if region.source.same_as(load.source)]
    copy = schedule.cache_read(block, read, "global")

    beside = _places(load, neighbours)

    def packed(*indices: Any) -> list[Any]:
        steps = [index // group if other in beside else index for other, index in enumerate(indices)]
        others = [steps[other] for other in range(rank) if other != place]
        last = [indices[other] % group for other in beside]
        return [indices[place] // width, *others, indices[place] % width, *last]

    layout = tvm.tirx.IndexMap.from_func(packed, ndim=rank, index_dtype=str(load.indices[place].ty.dtype))
    if is_dynamic(axis):
        # What is behind the last value is multiplied, and never read.
        schedule.transform_layout(copy, ("write", 0), layout, assume_injective_transform=True)
        _copy_in_vectors(schedule, copy, place, width)
        return
    zero = tvm.tirx.const(0, dtype_name(load.source.ty))
    schedule.transform_layout(copy, ("write", 0), layout, pad_value=None if is_whole else zero)
    if is_weight:
        for padding in schedule.get_producers(copy):
            schedule.compute_inline(padding)
        schedule.annotate(copy, MARK, ann_val=True)


def _copy_in_vectors(schedule: Any, copy: Any, position: int, width: int) -> None:
    """Copy an operand with a dynamic dimension in vectors along it, on all cores; in squares where it lies across in memory."""
    loops = schedule.get_loops(copy)
    along, last = loops[position], loops[-1]
    outer = [loop for loop in loops[:-1] if position == len(loops) - 1 or loop is not along]
    vectors, lanes = schedule.split(along, [None, width])
    schedule.reorder(*outer, vectors, *([] if position == len(loops) - 1 else [last]), lanes)
    schedule.vectorize(lanes)
    schedule.annotate(lanes, LANES, ann_val=SINGLE)
    if outer:
        schedule.parallel(fuse_outer(schedule, outer))


def can_pack(load: Any, axis: Any) -> bool:
    """Whether an operand can be reordered along an axis."""
    return len(_places(load, axis)) == 1 and all(
        isinstance(index, tvm.ir.Var | tvm.tirx.IntImm) for index in load.indices
    )


def _places(load: Any, axis: Any | None) -> list[int]:
    """Which of a load's indices are an axis."""
    return [
        place
        for place, index in enumerate(load.indices)
        if axis is not None and isinstance(index, tvm.ir.Var) and index.same_as(axis.var)
    ]
