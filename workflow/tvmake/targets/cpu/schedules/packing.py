"""Pack operands in the order in which a contraction reads them."""

from typing import Any

import tvm

from tvmake.ir.expressions import dtype_name
from tvmake.targets.cpu.schedules.accesses import Contraction, extent, fuse_outer, is_contiguous, is_dynamic
from tvmake.targets.cpu.vectors.partial_tiles import LANES, SINGLE
from tvmake.targets.weights.prepack import MARK


def pack(
    schedule: Any,
    block: Any,
    contraction: Contraction,
    load: Any,
    width: int,
    is_weight: bool,
    neighbours: Any | None = None,
    group: int = 1,
) -> None:
    """Make ``width`` values along a contraction's lane axis adjacent, followed by those of the next product.

    Weights are copied once, when the package is built (``targets.prepack``), with zeros in an incomplete last tile. The
    kernel copies other operands itself, if their lanes are not adjacent already. An operand that cannot be reordered
    stays unchanged.

    Args:
        neighbours: a reduction axis with ``group`` adjacent values in each lane.
    """
    axis = contraction.lane_axis
    positions = _positions(load, axis)
    if not can_pack(load, axis):
        return
    is_whole = not is_dynamic(axis) and extent(axis) % width == 0
    if not is_weight and is_contiguous(load, axis) and is_whole:
        return
    (position,) = positions
    rank = len(load.indices)
    (read,) = [number for number, region in enumerate(contraction.block.reads) if region.source.same_as(load.source)]
    copy = schedule.cache_read(block, read, "global")

    group_positions = _positions(load, neighbours)

    def packed(*indices: Any) -> list[Any]:
        steps = [index // group if number in group_positions else index for number, index in enumerate(indices)]
        others = [steps[number] for number in range(rank) if number != position]
        last = [indices[number] % group for number in group_positions]
        return [indices[position] // width, *others, indices[position] % width, *last]

    layout = tvm.tirx.IndexMap.from_func(packed, ndim=rank, index_dtype=str(load.indices[position].ty.dtype))
    if is_dynamic(axis):
        # Elements beyond the last value are multiplied, but the results are never read.
        schedule.transform_layout(copy, ("write", 0), layout, assume_injective_transform=True)
        _copy_in_vectors(schedule, copy, position, width)
        return
    zero = tvm.tirx.const(0, dtype_name(load.source.ty))
    schedule.transform_layout(copy, ("write", 0), layout, pad_value=None if is_whole else zero)
    if is_weight:
        for padding in schedule.get_producers(copy):
            schedule.compute_inline(padding)
        schedule.annotate(copy, MARK, ann_val=True)


def _copy_in_vectors(schedule: Any, copy: Any, position: int, width: int) -> None:
    """Copy an operand in vectors along its dynamic dimension, on all cores; in square tiles if that transposes it."""
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
    return len(_positions(load, axis)) == 1 and all(
        isinstance(index, tvm.ir.Var | tvm.tirx.IntImm) for index in load.indices
    )


def _positions(load: Any, axis: Any | None) -> list[int]:
    """The positions at which an axis is a load's index."""
    return [
        position
        for position, index in enumerate(load.indices)
        if axis is not None and isinstance(index, tvm.ir.Var) and index.same_as(axis.var)
    ]
