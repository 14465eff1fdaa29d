"""Vectorise contiguous loops."""

from typing import Any

from tvmake.ir.dimensions import estimate_extent, is_known
from tvmake.targets.cpu.schedules.machine import Machine
from tvmake.targets.cpu.vectors.incomplete_vectors import LENGTH
from tvmake.targets.cpu.vectors.partial_tiles import LANES, REPEATED


def vectorize(schedule: Any, loop: Any, machine: Machine, buffer: Any) -> Any:
    """Vectorise a loop; returns the loop over vectors, which must not be fused with others if it has :data:`LENGTH`."""
    dimension = schedule.get(loop).extent
    length = estimate_extent(dimension)
    lanes = lanes_of(length, machine.bits(buffer), machine)
    if lanes == 1:
        return loop
    vectors, within = schedule.split(loop, [None, lanes])
    schedule.vectorize(within)
    if not is_known(dimension):
        schedule.annotate(within, LANES, ann_val=REPEATED)
    elif length % lanes:
        schedule.annotate(vectors, LENGTH, length)
    return vectors


def lanes_of(length: int, bits: int, machine: Machine) -> int:
    """Number of values computed at once: a vector, or half of one if that leaves no remainder."""
    full = machine.lanes(bits)
    if length <= full:
        return length
    return full // 2 if length % full and full > 1 and length % (full // 2) == 0 else full
